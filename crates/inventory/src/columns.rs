//! The columns that are read: their place and type in a file, and their values.

use std::collections::HashSet;

use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::file::reader::RowGroupReader;
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor};

/// Columns by their names in inventories, and the type of their values. Other columns of a file are ignored.
const COLUMNS: [(&str, ValueType); 7] = [
    ("key", ValueType::Text),
    ("is_latest", ValueType::Flag),
    ("is_delete_marker", ValueType::Flag),
    ("size", ValueType::Number),
    ("last_modified_date", ValueType::Number),
    ("e_tag", ValueType::Text),
    ("storage_class", ValueType::Text),
];

/// Most bytes of a text: a key has 1,024. Without a limit a dictionary could repeat a text of megabytes in each row.
const LONGEST_TEXT: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueType {
    Text,
    Flag,
    Number,
}

/// A column of a file.
pub(crate) struct Column {
    pub(crate) name: &'static str,
    /// Place among the columns of the file.
    pub(crate) index: usize,
    optional: bool,
    /// Units in a millisecond, for columns of times.
    per_millisecond: i64,
}

/// Values of some rows, None where there is none.
pub(crate) enum Values {
    Texts(Vec<Option<ByteArray>>),
    Flags(Vec<Option<bool>>),
    Numbers(Vec<Option<i64>>),
}

/// The values of a column in one row group.
pub(crate) struct ColumnValues {
    reader: ColumnReader,
    optional: bool,
    per_millisecond: i64,
}

/// Find the columns that are read.
pub(crate) fn of_schema(schema: &SchemaDescriptor) -> Result<Vec<Column>, String> {
    let mut found = Vec::new();
    let mut names = HashSet::new();
    for (index, column) in schema.columns().iter().enumerate() {
        let [name] = column.path().parts() else { continue };
        let Some((name, wanted)) = COLUMNS.iter().find(|(known, _)| known == name) else { continue };
        if !names.insert(*name) {
            return Err(format!("it has two columns '{name}'"));
        }
        let fits = match column.physical_type() {
            Type::BYTE_ARRAY => *wanted == ValueType::Text,
            Type::BOOLEAN => *wanted == ValueType::Flag,
            Type::INT64 | Type::INT32 => *wanted == ValueType::Number,
            _ => false,
        };
        if !fits || column.max_rep_level() > 0 {
            return Err(format!("column {name}: its type is {}, which is not expected", column.physical_type()));
        }
        found.push(Column { name, index, optional: column.max_def_level() > 0, per_millisecond: units_of(column) });
    }
    if !names.contains("key") {
        return Err("it has no column 'key'".to_owned());
    }
    Ok(found)
}

/// Times are in milliseconds where nothing else is said.
fn units_of(column: &ColumnDescriptor) -> i64 {
    match (column.logical_type_ref(), column.converted_type()) {
        (Some(LogicalType::Timestamp(kind)), _) if matches!(kind.unit, TimeUnit::MICROS) => 1_000,
        (Some(LogicalType::Timestamp(kind)), _) if matches!(kind.unit, TimeUnit::NANOS) => 1_000_000,
        (None, ConvertedType::TIMESTAMP_MICROS) => 1_000,
        _ => 1,
    }
}

impl Column {
    /// Open its values in a row group.
    pub(crate) fn open(&self, group: &dyn RowGroupReader) -> Result<ColumnValues, String> {
        let reader = group.get_column_reader(self.index).map_err(|why| format!("column {}: {why}", self.name))?;
        Ok(ColumnValues { reader, optional: self.optional, per_millisecond: self.per_millisecond })
    }
}

impl ColumnValues {
    /// The values of the next rows, exactly this many.
    pub(crate) fn next(&mut self, count: usize) -> Result<Values, String> {
        let optional = self.optional;
        match &mut self.reader {
            ColumnReader::ByteArrayColumnReader(reader) => Ok(Values::Texts(read(reader, optional, count)?)),
            ColumnReader::BoolColumnReader(reader) => Ok(Values::Flags(read(reader, optional, count)?)),
            ColumnReader::Int64ColumnReader(reader) => {
                let values = read(reader, optional, count)?;
                let scaled = |value: i64| value.div_euclid(self.per_millisecond);
                Ok(Values::Numbers(values.into_iter().map(|value| value.map(scaled)).collect()))
            }
            ColumnReader::Int32ColumnReader(reader) => {
                let values = read(reader, optional, count)?;
                Ok(Values::Numbers(values.into_iter().map(|value| value.map(i64::from)).collect()))
            }
            _ => Err("its type is not expected".to_owned()),
        }
    }
}

fn read<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    optional: bool,
    count: usize,
) -> Result<Vec<Option<T::T>>, String> {
    let mut found = Vec::with_capacity(count);
    while found.len() < count {
        let (mut levels, mut values) = (Vec::new(), Vec::new());
        let most = count - found.len();
        let levels_wanted = optional.then_some(&mut levels);
        let (records, ..) =
            reader.read_records(most, levels_wanted, None, &mut values).map_err(|why| why.to_string())?;
        let mut values = values.into_iter();
        let before = found.len();
        if optional {
            for level in levels.iter().take(records) {
                found.push(if *level == 0 { None } else { Some(values.next().ok_or("it is cut")?) });
            }
        } else {
            found.extend(values.map(Some));
        }
        if found.len() == before || found.len() > count {
            return Err("it has not as many values as the row group has rows".to_owned());
        }
    }
    Ok(found)
}

/// Texts are UTF-8, whether the file marks them so or not.
pub(crate) fn text(bytes: &[u8]) -> Result<String, String> {
    if bytes.len() > LONGEST_TEXT {
        return Err(format!("it has {} bytes, and {LONGEST_TEXT} at most are read", bytes.len()));
    }
    std::str::from_utf8(bytes).map(ToOwned::to_owned).map_err(|_| "it is not UTF-8".to_owned())
}
