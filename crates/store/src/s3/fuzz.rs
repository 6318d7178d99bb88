//! Tests of the readers of XML documents with mutations of recorded ones: they never panic, and they keep no more bytes
//! than they read.

use std::sync::LazyLock;

use aws_smithy_runtime_api::http::Headers;
use proptest::prelude::*;

use super::convert::{SUB_RESOURCES, decode_key, other_answer, parts_of, upload_id_of};
use super::failures::region_hint;
use super::fast_path::answer::XmlReply;

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
    for server in ["aws", "seaweedfs", "versitygw"] {
        let parts = parts_of(document(&format!("{server}-list-parts"))).expect(server);
        assert_eq!(parts.parts.iter().map(|part| part.number).collect::<Vec<_>>(), [1, 2], "{server}");
        assert_eq!(parts.next, (server == "aws").then_some(2), "{server}");
        assert!(upload_id_of(document(&format!("{server}-create"))).is_some_and(|id| !id.is_empty()), "{server}");
        let copied = XmlReply::read(document(&format!("{server}-copy"))).expect(server);
        assert_eq!(
            (copied.root.as_str(), copied.etag.map(|etag| etag.len())),
            ("CopyObjectResult", Some(32)),
            "{server}"
        );
    }
    assert_eq!(XmlReply::read(document("aws-copy-failed")).unwrap().code.as_deref(), Some("InternalError"));
}

proptest! {
    #[test]
    fn mutated_documents_are_read_in_bounded_memory((index, changes) in mutations()) {
        let bytes = mutated(&DOCUMENTS[index.index(DOCUMENTS.len())].bytes, &changes, &DOCUMENTS);
        let fits = |text: &Option<String>| text.as_ref().is_none_or(|text| text.len() <= bytes.len());

        if let Ok(reply) = XmlReply::read(&bytes) {
            prop_assert!(reply.root.len() <= bytes.len());
            prop_assert!([&reply.etag, &reply.code, &reply.message, &reply.request_id].into_iter().all(fits));
        }
        prop_assert!(fits(&upload_id_of(&bytes)));
        if let Some(page) = parts_of(&bytes) {
            prop_assert!(page.parts.len() <= bytes.len());
            // The next page begins after a part of this one, or there is none.
            prop_assert!(page.next.is_none_or(|next| page.parts.last().is_some_and(|part| part.number == next)));
        }
        for (operation, _) in SUB_RESOURCES {
            let _says = other_answer(operation, &bytes);
        }
        prop_assert!(region_hint(&Headers::new(), &bytes).is_none_or(|region| region.len() <= 64));
        let text = String::from_utf8_lossy(&bytes);
        prop_assert!(decode_key(&text).len() <= 3 * text.len());
    }
}
