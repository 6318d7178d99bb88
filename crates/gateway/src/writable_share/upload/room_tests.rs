//! Files whose writers wait for space on the disk, while others are uploaded.

use seqferry_share::{FileError, Stability};
use seqferry_store::prelude::*;
use seqferry_store_testing::fault::{Fault, Latch, Rule};

use super::super::tests::Setting;
use super::super::waiting_writers::EXPECTED;
use super::tests::{QUIET, Running, drained, keys, objects, store_of};
use super::*;

#[tokio::test(start_paused = true)]
async fn a_half_written_file_whose_writer_waits_for_room_goes_only_where_nothing_else_makes_room() {
    let setting = Setting::new(&[]).await;
    setting.put("whole", "whole").await;
    let half = setting.put("half", "ha").await;
    setting.data.set_free(4);
    let refused = || async { setting.write(half, 2, "lf", Stability::File).await.unwrap_err() };
    assert_eq!(refused().await, FileError::TryLater);
    let (store, latch) = (store_of(&setting), Latch::default());
    store.rule(Rule::once("PutObject", Fault::HoldReply(latch.clone())).key("p/whole"));
    let running = Running::start(&setting, Arc::clone(&store) as Arc<dyn ObjectStore>);
    latch.reached().await;
    tokio::time::sleep(QUIET * 20).await;
    assert_eq!(keys(&setting).await, ["whole"], "another upload makes room");
    setting.data.set_free(50);
    latch.open();
    tokio::time::sleep(QUIET * 20).await;
    assert_eq!(keys(&setting).await, ["whole"], "there is room, which the writer has not asked for yet");
    let sent = Latch::default();
    store.rule(Rule::once("PutObject", Fault::HoldReply(sent.clone())).key("p/half"));
    setting.data.set_free(4);
    assert_eq!(refused().await, FileError::TryLater);
    let refused_at = Instant::now();
    sent.reached().await;
    assert_eq!(objects(&setting).await["half"], b"ha", "nothing else makes room");
    assert!(refused_at.elapsed() < EXPECTED, "its writer is expected again");
    sent.open();
    setting.data.set_free(50);
    setting.write(half, 2, "lf", Stability::File).await.unwrap();
    running.drain(&setting).await;
    assert_eq!(objects(&setting).await["half"], b"half");
}

#[tokio::test(start_paused = true)]
async fn a_half_written_file_whose_writer_has_gone_is_uploaded_as_it_is() {
    let setting = Setting::new(&[]).await;
    let half = setting.put("half", "ha").await;
    setting.data.set_free(4);
    assert_eq!(setting.write(half, 2, "lf", Stability::File).await.unwrap_err(), FileError::TryLater);
    setting.data.set_free(50);
    drained(&setting).await;
    assert_eq!(objects(&setting).await["half"], b"ha");
}
