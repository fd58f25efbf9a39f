//! How types are stored in rows. The columns of a type are declared once, with `row!`: their names,
//! and with them how a row is read and how its values are bound.

use std::str::FromStr;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sqlx::any::AnyRow;
use sqlx::{ColumnIndex, Row as _};

use super::StoreError;
use super::dialect::{BindNumber as _, Statement};
use crate::base::clock::Timestamp;
use crate::base::ids::{ErasureId, JobId, MemoryId, QueryId, SourceId, Space, ThreadId};
use crate::model::category::{ChangeSide, NamedBy};
use crate::model::contextual_helper::HelperOrigin;
use crate::model::erasure::{Pending, RowCounts, SubjectKind};
use crate::model::job::JobState;
use crate::model::memory::{EnrichmentState, Evidence, Labels, MemoryKind};
use crate::model::thread_receipt::HandedMemories;
use crate::model::vocabulary::Terms;

/// What is read from a row: a type declared with `row!`, or its first columns as a tuple.
pub(super) trait Stored: Sized {
    /// The columns as a SELECT lists them.
    const COLUMNS: &'static str;

    fn read(row: &AnyRow) -> Result<Self, StoreError>;
}

/// What is written as it is read.
pub(super) trait Written: Stored {
    /// The columns as an INSERT lists them.
    const NAMES: &'static str;

    /// Binds the value of each column.
    fn bind(&self, statement: Statement) -> Statement;
}

/// A value of a column that is never null.
pub(super) trait Column: Sized {
    /// Its value, unless it is null.
    fn read(row: &AnyRow, column: impl ColumnIndex<AnyRow>) -> Result<Option<Self>, StoreError>;

    fn bind(value: Option<&Self>, statement: Statement) -> Statement;
}

/// A value of a column.
pub(super) trait Field: Sized {
    fn read_from(row: &AnyRow, column: impl ColumnIndex<AnyRow>) -> Result<Self, StoreError>;

    fn bind_to(&self, statement: Statement) -> Statement;
}

impl<T: Column> Field for T {
    fn read_from(row: &AnyRow, column: impl ColumnIndex<AnyRow>) -> Result<Self, StoreError> {
        T::read(row, column)?.ok_or_else(|| broken("a column is null that never should be"))
    }

    fn bind_to(&self, statement: Statement) -> Statement {
        T::bind(Some(self), statement)
    }
}

impl<T: Column> Field for Option<T> {
    fn read_from(row: &AnyRow, column: impl ColumnIndex<AnyRow>) -> Result<Self, StoreError> {
        T::read(row, column)
    }

    fn bind_to(&self, statement: Statement) -> Statement {
        T::bind(self.as_ref(), statement)
    }
}

/// The value of a column.
pub(super) fn get<T: Field>(row: &AnyRow, column: &str) -> Result<T, StoreError> {
    T::read_from(row, column)
}

/// Columns whose type sqlx reads and writes itself.
macro_rules! plain_columns {
    ($($type:ty),*) => {$(
        impl Column for $type {
            fn read(row: &AnyRow, column: impl ColumnIndex<AnyRow>) -> Result<Option<Self>, StoreError> {
                Ok(row.try_get(column)?)
            }

            fn bind(value: Option<&Self>, statement: Statement) -> Statement {
                statement.bind(value.cloned())
            }
        }
    )*};
}

plain_columns!(String, i64, Vec<u8>);

impl Column for f64 {
    fn read(row: &AnyRow, column: impl ColumnIndex<AnyRow>) -> Result<Option<Self>, StoreError> {
        Ok(row.try_get(column)?)
    }

    fn bind(value: Option<&Self>, statement: Statement) -> Statement {
        statement.bind_number(value.copied())
    }
}

impl Column for bool {
    fn read(row: &AnyRow, column: impl ColumnIndex<AnyRow>) -> Result<Option<Self>, StoreError> {
        let number: Option<i64> = row.try_get(column)?;
        Ok(number.map(|number| number != 0))
    }

    fn bind(value: Option<&Self>, statement: Statement) -> Statement {
        statement.bind(value.copied().map(i16::from))
    }
}

impl Column for Timestamp {
    fn read(row: &AnyRow, column: impl ColumnIndex<AnyRow>) -> Result<Option<Self>, StoreError> {
        let micros: Option<i64> = row.try_get(column)?;
        Ok(micros.map(Self::from_micros))
    }

    fn bind(value: Option<&Self>, statement: Statement) -> Statement {
        statement.bind(value.map(|time| time.as_micros()))
    }
}

impl Column for Space {
    fn read(row: &AnyRow, column: impl ColumnIndex<AnyRow>) -> Result<Option<Self>, StoreError> {
        read_parsed(row, column)
    }

    fn bind(value: Option<&Self>, statement: Statement) -> Statement {
        statement.bind(value.map(|space| space.as_str().to_owned()))
    }
}

/// Columns that hold an id.
macro_rules! id_columns {
    ($($type:ty),*) => {$(
        impl Column for $type {
            fn read(row: &AnyRow, column: impl ColumnIndex<AnyRow>) -> Result<Option<Self>, StoreError> {
                let text: Option<String> = row.try_get(column)?;
                Ok(text.map(Self::from_stored))
            }

            fn bind(value: Option<&Self>, statement: Statement) -> Statement {
                statement.bind(value.map(|id| id.as_str().to_owned()))
            }
        }
    )*};
}

id_columns!(ErasureId, JobId, MemoryId, QueryId, SourceId, ThreadId);

/// Columns that hold the name of a choice.
macro_rules! name_columns {
    ($($type:ty),*) => {$(
        impl Column for $type {
            fn read(row: &AnyRow, column: impl ColumnIndex<AnyRow>) -> Result<Option<Self>, StoreError> {
                read_parsed(row, column)
            }

            fn bind(value: Option<&Self>, statement: Statement) -> Statement {
                statement.bind(value.map(|name| name.into_str()))
            }
        }
    )*};
}

name_columns!(
    EnrichmentState,
    HelperOrigin,
    JobState,
    MemoryKind,
    NamedBy,
    SubjectKind
);

/// Columns that hold JSON.
macro_rules! json_columns {
    ($($type:ty),*) => {$(
        impl Column for $type {
            fn read(row: &AnyRow, column: impl ColumnIndex<AnyRow>) -> Result<Option<Self>, StoreError> {
                read_json(row, column)
            }

            fn bind(value: Option<&Self>, statement: Statement) -> Statement {
                statement.bind(value.map(to_json))
            }
        }
    )*};
}

json_columns!(
    Value,
    RowCounts,
    Pending,
    Terms,
    Vec<i64>,
    ChangeSide,
    HandedMemories
);

/// Columns that hold JSON without which the row is still worth reading. Their contents come from
/// models and from imports: one that cannot be read must not hide every list that contains it.
macro_rules! optional_json_columns {
    ($($type:ty),*) => {$(
        impl Column for $type {
            fn read(row: &AnyRow, column: impl ColumnIndex<AnyRow>) -> Result<Option<Self>, StoreError> {
                let text: Option<&str> = row.try_get(column)?;
                Ok(text.map(|text| serde_json::from_str(text).unwrap_or_else(|error| {
                    tracing::warn!(%error, "stored {} cannot be read", stringify!($type));
                    Self::default()
                })))
            }

            fn bind(value: Option<&Self>, statement: Statement) -> Statement {
                statement.bind(value.map(to_json))
            }
        }
    )*};
}

optional_json_columns!(Labels, Evidence);

fn read_json<T: DeserializeOwned>(
    row: &AnyRow,
    column: impl ColumnIndex<AnyRow>,
) -> Result<Option<T>, StoreError> {
    let text: Option<&str> = row.try_get(column)?;
    let read = text.map(serde_json::from_str).transpose();
    read.map_err(|_| broken("stored JSON cannot be read"))
}

fn read_parsed<T: FromStr>(
    row: &AnyRow,
    column: impl ColumnIndex<AnyRow>,
) -> Result<Option<T>, StoreError> {
    let text: Option<&str> = row.try_get(column)?;
    let read = text.map(str::parse).transpose();
    read.map_err(|_| broken("a stored name is not one"))
}

/// A value as it is stored.
pub(super) fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

pub(super) fn broken(cause: &str) -> StoreError {
    StoreError::Broken {
        cause: cause.to_owned(),
    }
}

/// Reads the first columns of a row as a tuple.
macro_rules! tuples {
    ($($($type:ident $place:literal)+,)*) => {$(
        impl<$($type: Field),+> Stored for ($($type,)+) {
            const COLUMNS: &'static str = "";

            fn read(row: &AnyRow) -> Result<Self, StoreError> {
                Ok(($($type::read_from(row, $place)?,)+))
            }
        }
    )*};
}

tuples!(
    A 0,
    A 0 B 1,
    A 0 B 1 C 2,
    A 0 B 1 C 2 D 3,
    A 0 B 1 C 2 D 3 E 4,
);

/// Declares how a type is read: its fields, with the names of their columns where they differ, and
/// the prefix of the columns in a SELECT. Fields in `from row` have no column of their own: they are
/// computed from the row, maybe from further columns, which are named before them.
macro_rules! row {
    (
        $type:ident as $prefix:literal {
            $first:ident $(= $first_column:literal)?
            $(, $field:ident
                $(= $column:literal)?
                $(as $group:ident { $($inner:ident = $inner_column:literal),* $(,)? })?
            )* $(,)?
        }
        $(from $row:ident $($more:literal)? { $($other:ident: $value:expr),* $(,)? })?
    ) => {
        impl $crate::store::rows::Stored for $type {
            const COLUMNS: &'static str = concat!(
                $prefix, $crate::store::rows::row!(@name $first $($first_column)?)
                $(, $crate::store::rows::row!(@names $prefix $field $($column)? $($group { $($inner_column)* })?))*
                $($(, ", ", $more)?)?
            );

            fn read(row: &sqlx::any::AnyRow) -> Result<Self, $crate::store::StoreError> {
                $(let $row = row;)?
                Ok(Self {
                    $first: $crate::store::rows::row!(@read row $first $($first_column)?),
                    $($field: $crate::store::rows::row!(@read row $field $($column)? $($group { $($inner $inner_column)* })?),)*
                    $($($other: $value,)*)?
                })
            }
        }
    };
    (@name $field:ident $column:literal) => { $column };
    (@name $field:ident) => { stringify!($field) };
    (@names $prefix:literal $field:ident $group:ident { $($column:literal)* }) => {
        concat!($(", ", $prefix, $column),*)
    };
    (@names $prefix:literal $field:ident $($column:literal)?) => {
        concat!(", ", $prefix, $crate::store::rows::row!(@name $field $($column)?))
    };
    (@read $row:ident $field:ident $group:ident { $($inner:ident $column:literal)* }) => {
        $group { $($inner: $crate::store::rows::get($row, $column)?),* }
    };
    (@read $row:ident $field:ident $($column:literal)?) => {
        $crate::store::rows::get($row, $crate::store::rows::row!(@name $field $($column)?))?
    };
}

/// Declares how a type is read and written, as `row!` does. The database sets the field in
/// `numbered`; it is only read.
macro_rules! written_row {
    (
        $type:ident as $prefix:literal {
            $first:ident $(= $first_column:literal)?
            $(, $field:ident
                $(= $column:literal)?
                $(as $group:ident { $($inner:ident = $inner_column:literal),* $(,)? })?
            )* $(,)?
        }
        $(numbered { $number:ident })?
        $(from $row:ident { $($other:ident: $value:expr),* $(,)? })?
    ) => {
        $crate::store::rows::row! {
            $type as $prefix {
                $first $(= $first_column)?
                $(, $field $(= $column)? $(as $group { $($inner = $inner_column),* })?)*
                $(, $number)?
            }
            $(from $row { $($other: $value),* })?
        }

        impl $crate::store::rows::Written for $type {
            const NAMES: &'static str = concat!(
                $crate::store::rows::row!(@name $first $($first_column)?)
                $(, $crate::store::rows::row!(@names "" $field $($column)? $($group { $($inner_column)* })?))*
            );

            fn bind(
                &self,
                statement: $crate::store::dialect::Statement,
            ) -> $crate::store::dialect::Statement {
                use $crate::store::rows::Field as _;
                let statement = self.$first.bind_to(statement);
                $($crate::store::rows::written_row!(@bind self statement $field $($group { $($inner)* })?);)*
                statement
            }
        }
    };
    (@bind $self:ident $statement:ident $field:ident $group:ident { $($inner:ident)* }) => {
        $(let $statement = $self.$field.$inner.bind_to($statement);)*
    };
    (@bind $self:ident $statement:ident $field:ident) => {
        let $statement = $self.$field.bind_to($statement);
    };
}

pub(super) use {row, written_row};
