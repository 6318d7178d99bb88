//! Names that do not exist leave nothing: neither in the table of handles nor in the journal.

use super::tests::{Setting, root};
use super::*;

#[tokio::test]
async fn calls_about_names_that_do_not_exist_leave_nothing() {
    let setting = Setting::new(&[("there", b"bytes".to_vec()), ("runs/a", b"a".to_vec())]).await;
    setting.put("made", "here").await;
    let share = &setting.share;
    let (top, runs, there) = (share.root(), setting.id("runs").await, setting.id("there").await);
    setting.names("", 100).await;
    setting.names("runs", 100).await;
    let kept = || (setting.file_table.len(), setting.share.0.overlay.read(|overlay| overlay.records().len()));
    let before = kept();
    for number in 0..200 {
        let name = format!("absent-{number}");
        let name = name.as_bytes();
        for folder in [top, runs] {
            assert_eq!(share.lookup(&root(), folder, name).await.unwrap_err(), FileError::NotFound);
            assert_eq!(share.remove(&root(), folder, name).await.unwrap_err(), FileError::NotFound);
            assert_eq!(share.remove_directory(&root(), folder, name).await.unwrap_err(), FileError::NotFound);
            assert_eq!(share.rename(&root(), folder, name, top, b"there").await.unwrap_err(), FileError::NotFound);
        }
        assert!(share.lookup(&root(), there, name).await.is_err(), "below a file");
        let long = [b'x'; 300];
        assert!(share.lookup(&root(), top, &long).await.is_err());
        assert!(share.lookup(&root(), top, &[0xff, 0xfe]).await.is_err());
        assert!(share.attributes(&root(), FileId { number: 1 << 50 | number, generation: 0 }).await.is_err());
    }
    assert_eq!(kept(), before);
}
