//! Files of S3 Inventory in Parquet: their rows in order and in bounded memory, of the columns that a transfer needs.
//!
//! Invariants: no row is skipped; a file that cannot be read ends in an error, never in a panic; memory depends neither
//! on the size of a file nor on what a damaged file says of itself ([`BoundedFile`]).

mod bounds;
mod columns;

use std::cell::Cell;
use std::fmt;
use std::fs::File;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::Once;

use parquet::basic::Compression;
use parquet::file::reader::{FileReader as _, SerializedFileReader};

use self::bounds::BoundedFile;
use self::columns::{Column, ColumnValues, Values};

/// One row: an object, an older version of it, or a delete marker. Fields without a column in the file are None.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InventoryRow {
    /// Key, as it is.
    pub key: String,
    /// True for the current version of the key.
    pub is_latest: Option<bool>,
    /// True for a delete marker.
    pub is_delete_marker: Option<bool>,
    /// Bytes; None for a delete marker.
    pub size: Option<u64>,
    /// Milliseconds since the epoch.
    pub last_modified: Option<i64>,
    /// `ETag` without quotes.
    pub etag: Option<String>,
    /// Storage class by its name in S3.
    pub storage_class: Option<String>,
}

/// Reason why a file cannot be read, and the row that it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InventoryError {
    /// Number of the row, counted from 1; None: the file as a whole.
    pub row: Option<u64>,
    /// Reason in words, without a full stop.
    pub cause: String,
}

impl fmt::Display for InventoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.row {
            Some(row) => write!(f, "row {row}: {}", self.cause),
            None => f.write_str(&self.cause),
        }
    }
}

impl std::error::Error for InventoryError {}

/// The rows of one file.
pub struct InventoryRows {
    reader: SerializedFileReader<BoundedFile>,
    columns: Vec<Column>,
    /// Row group that is opened next.
    next_group: usize,
    group: Option<Group>,
    /// Rows that were returned.
    read: u64,
    ended: bool,
}

/// A row group that is being read.
struct Group {
    columns: Vec<ColumnValues>,
    rows_left: u64,
}

impl fmt::Debug for InventoryRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InventoryRows").field("read", &self.read).field("ended", &self.ended).finish_non_exhaustive()
    }
}

impl InventoryRows {
    /// Open a file.
    ///
    /// # Errors
    /// When the file cannot be read, is no Parquet, lacks the column `key`, or has an unsupported type or compression.
    pub fn open(path: &Path) -> Result<Self, InventoryError> {
        let fault = |cause: String| InventoryError { row: None, cause };
        let file = File::open(path).map_err(|why| fault(why.to_string()))?;
        guard(|| Self::of(file)).map_err(fault)
    }

    fn of(file: File) -> Result<Self, String> {
        let reader = SerializedFileReader::new(BoundedFile(file)).map_err(|why| why.to_string())?;
        let columns = columns::of_schema(reader.metadata().file_metadata().schema_descr())?;
        check_groups(&reader, &columns)?;
        Ok(Self { reader, columns, next_group: 0, group: None, read: 0, ended: false })
    }

    /// Names of the columns that the file has, of those that are read.
    pub fn columns(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.columns.iter().map(|column| column.name)
    }

    /// The next rows, `most` of them at most; none at the end.
    ///
    /// # Errors
    /// A row cannot be read. Nothing follows then.
    pub fn next_rows(&mut self, most: usize) -> Result<Vec<InventoryRow>, InventoryError> {
        if self.ended {
            return Ok(Vec::new());
        }
        let mut rows = Vec::new();
        let mut unread = None;
        let outcome = guard(|| self.read_rows(most, &mut rows, &mut unread));
        if let Err(cause) = outcome {
            self.ended = true;
            return Err(InventoryError { row: unread.map(|at| self.read + 1 + at), cause });
        }
        self.ended = rows.is_empty();
        self.read += rows.len() as u64;
        Ok(rows)
    }

    /// Read rows of one row group. On an error about a row, `unread` is its place among those requested.
    fn read_rows(&mut self, most: usize, rows: &mut Vec<InventoryRow>, unread: &mut Option<u64>) -> Result<(), String> {
        while self.group.as_ref().is_none_or(|group| group.rows_left == 0) {
            if self.next_group == self.reader.num_row_groups() {
                return Ok(());
            }
            self.group = Some(self.open_group(self.next_group)?);
            self.next_group += 1;
        }
        let (Some(group), number) = (&mut self.group, self.next_group) else { return Ok(()) };
        let count = usize::try_from(group.rows_left).unwrap_or(usize::MAX).min(most);
        rows.resize_with(count, InventoryRow::default);
        for (column, values) in self.columns.iter().zip(&mut group.columns) {
            let place = |why: String| format!("row group {number}, column {}: {why}", column.name);
            let found = values.next(count).map_err(place)?;
            fill(rows, column.name, found).map_err(|(at, why)| {
                *unread = Some(at as u64);
                format!("column {}: {why}", column.name)
            })?;
        }
        group.rows_left -= count as u64;
        Ok(())
    }

    fn open_group(&self, number: usize) -> Result<Group, String> {
        let group = self.reader.get_row_group(number).map_err(|why| why.to_string())?;
        let columns = self.columns.iter().map(|column| column.open(&*group)).collect::<Result<_, _>>()?;
        Ok(Group { columns, rows_left: u64::try_from(group.metadata().num_rows()).unwrap_or_default() })
    }
}

/// Refuse what would be read wrongly: a compression that is not read, and counts of rows that differ.
fn check_groups(reader: &SerializedFileReader<BoundedFile>, columns: &[Column]) -> Result<(), String> {
    let metadata = reader.metadata();
    let mut total = 0_i64;
    for (number, group) in (1..).zip(metadata.row_groups()) {
        let rows = group.num_rows();
        total = total.checked_add(rows).filter(|_| rows >= 0).ok_or_else(|| format!("row group {number}: no count"))?;
        for column in columns {
            let chunk = group.columns().get(column.index).ok_or_else(|| format!("row group {number}: it is cut"))?;
            let used = chunk.compression();
            if !matches!(used, Compression::UNCOMPRESSED | Compression::SNAPPY | Compression::GZIP(_)) {
                return Err(format!("it is compressed with {used}, which is not read (SNAPPY and GZIP are)"));
            }
            if chunk.num_values() != rows {
                let found = chunk.num_values();
                return Err(format!("row group {number}, column {}: {found} values for {rows} rows", column.name));
            }
        }
    }
    let said = metadata.file_metadata().num_rows();
    if said == total { Ok(()) } else { Err(format!("it says {said} rows, and its row groups have {total}")) }
}

/// Set one field of all rows; on an error, the place of the row.
fn fill(rows: &mut [InventoryRow], name: &str, values: Values) -> Result<(), (usize, String)> {
    let each = rows.iter_mut().enumerate();
    match values {
        Values::Texts(values) => each.zip(values).try_for_each(|((at, row), value)| {
            let text = value.map(|bytes| columns::text(bytes.data())).transpose().map_err(|why| (at, why))?;
            match (name, text) {
                ("key", Some(text)) if !text.is_empty() => row.key = text,
                ("key", _) => return Err((at, "it is empty".to_owned())),
                ("e_tag", text) => row.etag = text.map(|text| text.trim_matches('"').to_owned()),
                (_, text) => row.storage_class = text,
            }
            Ok(())
        }),
        Values::Flags(values) => {
            each.zip(values).for_each(|((_, row), value)| {
                *(if name == "is_latest" { &mut row.is_latest } else { &mut row.is_delete_marker }) = value;
            });
            Ok(())
        }
        Values::Numbers(values) => each.zip(values).try_for_each(|((at, row), value)| {
            if name == "last_modified_date" {
                row.last_modified = value;
            } else {
                let size = value.map(|value| u64::try_from(value).map_err(|_| (at, format!("{value} is no size"))));
                row.size = size.transpose()?;
            }
            Ok(())
        }),
    }
}

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// The decoders take some damages for mistakes of the program. Such a panic becomes an error, and prints nothing.
fn guard<T>(read: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !GUARDED.get() {
                before(info);
            }
        }));
    });
    GUARDED.set(true);
    let outcome = panic::catch_unwind(AssertUnwindSafe(read));
    GUARDED.set(false);
    outcome.unwrap_or_else(|_| Err("it is damaged and cannot be decoded".to_owned()))
}
