//! Tests of the readers of XML documents with mutations of recorded ones: they never panic, and they keep no more bytes
//! than they read.

use std::sync::LazyLock;

use aws_smithy_runtime_api::http::Headers;
use proptest::prelude::*;

use super::encoding::{decode_key, unquote};
use super::errors::ErrorContext;
use super::xml::Element;

#[path = "../../fuzz/mutate.rs"]
pub(super) mod mutate;

use mutate::{RecordedAnswer, mutated, mutations};

static DOCUMENTS: LazyLock<Vec<RecordedAnswer>> = LazyLock::new(|| {
    let body = |recorded: RecordedAnswer| RecordedAnswer { bytes: body_of(&recorded.bytes).to_vec(), ..recorded };
    mutate::corpus().into_iter().map(body).filter(|recorded| recorded.bytes.starts_with(b"<")).collect()
});

/// The bytes after the head.
fn body_of(answer: &[u8]) -> &[u8] {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
    &answer[end.map_or(answer.len(), |end| end + 4)..]
}

fn document(name: &str) -> &'static [u8] {
    &DOCUMENTS.iter().find(|document| document.name == name).expect(name).bytes
}

#[test]
fn recorded_documents_say_what_the_servers_meant() {
    let read = |name: &str| Element::read(document(name)).expect(name);
    for server in ["aws", "seaweedfs", "versitygw"] {
        let parts = read(&format!("{server}-list-parts"));
        let numbers: Vec<Option<u32>> = parts.all("Part").map(|part| part.value("PartNumber")).collect();
        assert_eq!((parts.name, numbers), ("ListPartsResult", vec![Some(1), Some(2)]), "{server}");
        assert_eq!(parts.value("IsTruncated"), Some(server == "aws"), "{server}");
        assert!(!read(&format!("{server}-create")).owned("UploadId").is_empty(), "{server}");
        let copied = read(&format!("{server}-copy"));
        assert_eq!((copied.name, unquote(copied.text("ETag")).len()), ("CopyObjectResult", 32), "{server}");
    }
    assert_eq!(read("aws-copy-failed").text("Code"), Some("InternalError"));
}

#[test]
fn every_recorded_document_is_well_formed() {
    for recorded in &*DOCUMENTS {
        assert!(Element::read(&recorded.bytes).is_ok(), "{}", recorded.name);
    }
}

proptest! {
    #[test]
    fn mutated_documents_are_read_in_bounded_memory((index, changes) in mutations()) {
        let bytes = mutated(&DOCUMENTS[index.index(DOCUMENTS.len())].bytes, &changes, &DOCUMENTS);

        if let Ok(document) = Element::read(&bytes) {
            prop_assert!(document.size() <= bytes.len());
        }
        let context = ErrorContext { operation: "GetObject", bucket: "bucket", key: Some("key") };
        let error = context.reply_error(403, &Headers::new(), &bytes);
        prop_assert!(error.code.len() + error.message.len() <= bytes.len() + "Forbidden".len());
        prop_assert!(error.region.is_none_or(|region| region.len() <= 64));
        let text = String::from_utf8_lossy(&bytes);
        prop_assert!(decode_key(&text).len() <= 3 * text.len());
    }
}
