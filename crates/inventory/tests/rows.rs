//! Reads the sample of `data/README.md`, and files that are written here with the columns of S3 Inventory.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use seqferry_inventory::{InventoryRow, InventoryRows};

const SCHEMA: &str = "message s3.inventory {
    required binary bucket (UTF8);
    required binary key (STRING);
    optional binary version_id (UTF8);
    optional boolean is_latest;
    optional boolean is_delete_marker;
    optional int64 size;
    optional int64 last_modified_date (TIMESTAMP(MILLIS,true));
    optional binary e_tag (UTF8);
    optional binary storage_class (UTF8);
}";

type Fault = Box<dyn std::error::Error>;

/// An inventory file that is removed when this value is dropped.
struct InventoryFile(PathBuf);

impl Drop for InventoryFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn texts(group: &mut SerializedRowGroupWriter<'_, File>, values: &[Option<&str>], required: bool) -> Result<(), Fault> {
    let levels: Vec<i16> = values.iter().map(|one| i16::from(one.is_some())).collect();
    let values: Vec<ByteArray> = values.iter().flatten().map(|one| ByteArray::from(*one)).collect();
    let mut column = group.next_column()?.ok_or("no column")?;
    column.typed::<ByteArrayType>().write_batch(&values, (!required).then_some(&levels), None)?;
    Ok(column.close()?)
}

fn flags(group: &mut SerializedRowGroupWriter<'_, File>, values: &[bool]) -> Result<(), Fault> {
    let mut column = group.next_column()?.ok_or("no column")?;
    column.typed::<BoolType>().write_batch(values, Some(&vec![1; values.len()]), None)?;
    Ok(column.close()?)
}

fn numbers(group: &mut SerializedRowGroupWriter<'_, File>, values: &[Option<i64>]) -> Result<(), Fault> {
    let levels: Vec<i16> = values.iter().map(|one| i16::from(one.is_some())).collect();
    let values: Vec<i64> = values.iter().flatten().copied().collect();
    let mut column = group.next_column()?.ok_or("no column")?;
    column.typed::<Int64Type>().write_batch(&values, Some(&levels), None)?;
    Ok(column.close()?)
}

/// An inventory of these keys in groups of two rows; the last one of each group is a delete marker.
fn written(name: &str, keys: &[&str], compression: Compression) -> Result<InventoryFile, Fault> {
    let path = std::env::temp_dir().join(format!("seqferry-inventory-{}-{name}.parquet", std::process::id()));
    let found = InventoryFile(path.clone());
    let properties = WriterProperties::builder().set_compression(compression).build();
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let mut writer = SerializedFileWriter::new(File::create(&path)?, schema, Arc::new(properties))?;
    for chunk in keys.chunks(2) {
        let count = chunk.len();
        let marker = |at: usize| at == 1;
        let some: Vec<Option<&str>> = chunk.iter().copied().map(Some).collect();
        let mut group = writer.next_row_group()?;
        texts(&mut group, &vec![Some("src"); count], true)?;
        texts(&mut group, &some, true)?;
        texts(&mut group, &vec![Some("v1"); count], false)?;
        flags(&mut group, &vec![true; count])?;
        flags(&mut group, &(0..count).map(marker).collect::<Vec<_>>())?;
        numbers(&mut group, &(0..count).map(|at| (!marker(at)).then_some(7)).collect::<Vec<_>>())?;
        numbers(&mut group, &vec![Some(1_793_520_000_123); count])?;
        texts(&mut group, &vec![Some("\"etag\""); count], false)?;
        texts(&mut group, &(0..count).map(|at| (!marker(at)).then_some("STANDARD")).collect::<Vec<_>>(), false)?;
        group.close()?;
    }
    writer.close()?;
    Ok(found)
}

fn all(file: &InventoryFile, at_once: usize) -> Result<Vec<InventoryRow>, Fault> {
    let mut rows = InventoryRows::open(&file.0)?;
    let mut found = Vec::new();
    loop {
        let page = rows.next_rows(at_once)?;
        assert!(page.len() <= at_once);
        if page.is_empty() {
            return Ok(found);
        }
        found.extend(page);
    }
}

#[test]
fn rows_come_in_order_with_the_columns_that_are_needed() -> Result<(), Fault> {
    let keys = ["run/a b+c%.txt", "gone", "run/\u{fc}.txt"];
    for (name, compression) in [("plain", Compression::UNCOMPRESSED), ("snappy", Compression::SNAPPY)] {
        let file = written(name, &keys, compression)?;

        let found = all(&file, 2)?;

        let object = InventoryRow {
            key: keys[0].to_owned(),
            is_latest: Some(true),
            is_delete_marker: Some(false),
            size: Some(7),
            last_modified: Some(1_793_520_000_123),
            etag: Some("etag".to_owned()),
            storage_class: Some("STANDARD".to_owned()),
        };
        assert_eq!(found[0], object);
        assert_eq!((found[1].key.as_str(), found[1].is_delete_marker, found[1].size), ("gone", Some(true), None));
        assert_eq!(found[2], InventoryRow { key: keys[2].to_owned(), ..object });
        assert_eq!(found.len(), 3);
    }
    Ok(())
}

#[test]
fn a_file_that_is_cut_or_no_parquet_is_an_error() -> Result<(), Fault> {
    let file = written("cut", &["a", "b"], Compression::SNAPPY)?;
    let data = std::fs::read(&file.0)?;
    for cut in [0, 3, data.len() / 2, data.len() - 1] {
        std::fs::write(&file.0, &data[..cut])?;

        let found = InventoryRows::open(&file.0);

        assert!(found.is_err_and(|why| why.row.is_none() && !why.to_string().is_empty()), "{cut} bytes");
    }
    Ok(())
}

#[test]
fn damaged_pages_are_an_error_and_end_the_rows() -> Result<(), Fault> {
    let file = written("damaged", &["a", "b", "c"], Compression::SNAPPY)?;
    let mut data = std::fs::read(&file.0)?;
    let pages = 4..data.len() / 3;
    for byte in &mut data[pages] {
        *byte = 0xff;
    }
    std::fs::write(&file.0, &data)?;
    let mut rows = InventoryRows::open(&file.0)?;

    assert!(rows.next_rows(10).is_err());

    assert_eq!(rows.next_rows(10), Ok(Vec::new()));
    Ok(())
}

#[test]
fn a_file_without_keys_is_refused() -> Result<(), Fault> {
    let path = std::env::temp_dir().join(format!("seqferry-inventory-{}-keyless.parquet", std::process::id()));
    let file = InventoryFile(path.clone());
    let schema = Arc::new(parse_message_type("message other { required int64 size; }")?);
    SerializedFileWriter::new(File::create(&path)?, schema, Arc::default())?.close()?;

    let found = InventoryRows::open(&file.0);

    assert!(found.is_err_and(|why| why.to_string().contains("no column 'key'")));
    Ok(())
}

/// Written by pyarrow, as `data/README.md` says.
const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/inventory.parquet");

#[test]
fn a_file_of_another_writer_is_read_across_row_groups_pages_and_compressions() -> Result<(), Fault> {
    let names = [
        "a b+c%.txt",
        "\u{fc}/\u{4e2d}\u{6587}.bam",
        "new\nline.txt",
        "tab\there",
        "it's \"quoted\"",
        "100%",
        "plain.txt",
    ];
    let mut rows = InventoryRows::open(Path::new(SAMPLE))?;
    assert_eq!(rows.columns().count(), 7);
    let mut found = Vec::new();

    loop {
        let page = rows.next_rows(77)?;
        if page.is_empty() {
            break;
        }
        found.extend(page);
    }

    assert_eq!(found.len(), 300);
    for (n, row) in found.iter().enumerate() {
        let folder = if n < 200 { "run42" } else { "other" };
        let marker = n % 5 == 3;
        assert_eq!(row.key, format!("{folder}/{n:03}/{}", names[n % 7]));
        assert_eq!((row.is_latest, row.is_delete_marker), (Some(n % 5 != 2), Some(marker)));
        assert_eq!(row.size, (!marker).then(|| format!("content {n}\n").len() as u64));
        assert_eq!(row.last_modified, Some(1_793_520_000_123 + 1000 * i64::try_from(n)?));
        assert_eq!(row.etag.as_ref().map(String::len), (!marker).then_some(32));
        let class = if n % 5 == 4 { "STANDARD_IA" } else { "STANDARD" };
        assert_eq!(row.storage_class.as_deref(), (!marker).then_some(class));
    }
    Ok(())
}

#[test]
fn no_damage_of_one_byte_or_cut_ends_in_a_panic_or_in_rows_without_end() -> Result<(), Fault> {
    let whole = std::fs::read(SAMPLE)?;
    let file =
        InventoryFile(std::env::temp_dir().join(format!("seqferry-inventory-{}-flips.parquet", std::process::id())));
    let outcome = |data: &[u8]| -> Result<usize, Fault> {
        std::fs::write(&file.0, data)?;
        Ok(all(&file, 100)?.len())
    };
    let mut refused = 0;
    for at in (0..whole.len()).step_by(7) {
        let mut data = whole.clone();
        data[at] ^= [0xff, 0x01, 0x80][at % 3];
        match outcome(&data) {
            // Contents have no checksum of their own; that of the whole file is in the manifest.
            Ok(rows) => assert_eq!(rows, 300, "byte {at}"),
            Err(why) => {
                assert!(!why.to_string().contains('\n') && !why.to_string().is_empty(), "byte {at}: {why}");
                refused += 1;
            }
        }
    }
    assert!(refused > 300, "{refused}");
    for length in (0..whole.len()).step_by(501) {
        assert!(outcome(&whole[..length]).is_err(), "{length} bytes");
    }
    Ok(())
}

#[test]
fn pages_that_would_fill_the_memory_are_refused() -> Result<(), Fault> {
    let path = std::env::temp_dir().join(format!("seqferry-inventory-{}-page.parquet", std::process::id()));
    let file = InventoryFile(path.clone());
    let most = 64 * 1024 * 1024;
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_dictionary_enabled(false)
        .set_data_page_size_limit(most)
        .set_write_batch_size(20_000);
    let schema = Arc::new(parse_message_type("message inventory { required binary key (UTF8); }")?);
    let mut writer = SerializedFileWriter::new(File::create(&path)?, schema, Arc::new(properties.build()))?;
    let long = "k".repeat(1000);
    let mut group = writer.next_row_group()?;
    texts(&mut group, &vec![Some(long.as_str()); 10_000], true)?;
    group.close()?;
    writer.close()?;
    assert!(std::fs::metadata(&path)?.len() < 1024 * 1024);

    let found = all(&file, 1000);

    let why = found.map_err(|why| why.to_string()).err().unwrap_or_default();
    assert!(why.contains("row group 1, column key") && why.contains("a page of it has 1004"), "{why}");
    Ok(())
}

#[test]
fn rows_that_are_no_objects_are_named() -> Result<(), Fault> {
    let long = "k".repeat(5000);
    for (name, key, cause) in [("empty", "", "column key: it is empty"), ("long", &long, "it has 5000 bytes")] {
        let file = written(name, &["a", "b", key], Compression::UNCOMPRESSED)?;

        let found = all(&file, 1000);

        let why = found.map_err(|why| why.to_string()).err().unwrap_or_default();
        assert!(why.starts_with("row 3: ") && why.contains(cause), "{why}");
    }
    Ok(())
}

#[test]
fn a_column_of_another_type_is_named() -> Result<(), Fault> {
    let path = std::env::temp_dir().join(format!("seqferry-inventory-{}-types.parquet", std::process::id()));
    let file = InventoryFile(path.clone());
    let schema = Arc::new(parse_message_type("message other { required int64 key; }")?);
    SerializedFileWriter::new(File::create(&path)?, schema, Arc::default())?.close()?;

    let found = InventoryRows::open(&file.0);

    assert!(found.is_err_and(|why| why.to_string().contains("column key: its type is INT64")));
    Ok(())
}
