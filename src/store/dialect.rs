//! The differences between the engines. This is the only file that may declare a statement safe.
//!
//! Statements are written once, with `?` for each value and `@now` for the database's clock.
//! PostgreSQL needs `$1, $2, …`; the rewritten text is cached, so that it is made once per
//! statement and the driver's own cache still matches.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use sqlx::any::AnyArguments;
use sqlx::query::Query;
use sqlx::{Any, AssertSqlSafe, Encode, Type};

use crate::config::database::Engine;

/// Inserts of up to so many rows are kept prepared; longer ones are rare, and each length is
/// another text.
pub const KEPT_ROWS: usize = 8;

/// Separates joined values: a control character, which tags and names cannot contain.
pub const JOINT: char = '\u{1f}';

/// A statement with its values, as sqlx takes it.
pub type Statement = Query<'static, Any, AnyArguments>;

/// Binds numbers that may be missing.
pub trait BindNumber {
    fn bind_number(self, value: Option<f64>) -> Self;
}

impl BindNumber for Statement {
    /// sqlx declares a missing `f64` to PostgreSQL as a 4-byte number and a missing `f32` as an
    /// 8-byte one. A prepared statement keeps the types of its first use, so one that began with a
    /// missing number would reject every number after it.
    fn bind_number(self, value: Option<f64>) -> Self {
        match value {
            Some(number) => self.bind(number),
            None => self.bind(None::<f32>),
        }
    }
}

/// Binds several values.
pub trait BindAll: Sized {
    fn bind_all<'t, T>(self, values: impl IntoIterator<Item = T>) -> Self
    where
        T: Encode<'t, Any> + Type<Any>;
}

impl BindAll for Statement {
    fn bind_all<'t, T>(self, values: impl IntoIterator<Item = T>) -> Self
    where
        T: Encode<'t, Any> + Type<Any>,
    {
        values.into_iter().fold(self, Self::bind)
    }
}

/// A text as a part of a `LIKE … ESCAPE '!'` pattern that matches only itself.
pub fn like_text(text: &str) -> String {
    let signs = ["!", "%", "_"].iter();
    signs.fold(text.to_owned(), |text, sign| {
        text.replace(sign, &format!("!{sign}"))
    })
}

/// Speaks one engine's SQL.
pub struct Dialect {
    engine: Engine,
    rewritten: RwLock<HashMap<&'static str, Arc<str>>>,
}

impl Dialect {
    pub fn new(engine: Engine) -> Self {
        Self {
            engine,
            rewritten: RwLock::default(),
        }
    }

    /// Rows per insert of long rows. SQLite updates its full-text index after each statement; the
    /// servers take longer to parse a long statement than to run it, so theirs has one length and
    /// is kept prepared.
    pub fn bulk(&self) -> usize {
        if self.engine == Engine::Sqlite {
            500
        } else {
            200
        }
    }

    /// One of our statements in the engine's syntax.
    pub fn query(&self, sql: &'static str) -> Statement {
        if self.engine != Engine::Postgres && !sql.contains("@now") {
            return sqlx::query(sql);
        }

        let known = self
            .rewritten
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(sql)
            .cloned();

        let text = known.unwrap_or_else(|| {
            let text: Arc<str> = self.spell(sql).into();
            self.rewritten
                .write()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(sql, Arc::clone(&text));

            text
        });

        sqlx::query(AssertSqlSafe(text))
    }

    /// A statement whose `(??)` stands for a list of `count` values; not cached by the driver,
    /// because each length is another text.
    pub fn query_list(&self, sql: &'static str, count: usize) -> Statement {
        let marks = vec!["?"; count.max(1)].join(",");
        self.assembled(&sql.replace("(??)", &format!("({marks})")))
            .persistent(false)
    }

    /// A statement composed of fixed parts by one of our own files, such as a filter or a
    /// migration.
    pub fn assembled(&self, sql: &str) -> Statement {
        sqlx::query(AssertSqlSafe(self.spell(sql)))
    }

    /// A statement in the engine's syntax.
    fn spell(&self, sql: &str) -> String {
        let now = match self.engine {
            Engine::Sqlite => "CAST(unixepoch('subsec') * 1000000 AS INTEGER)",
            Engine::Postgres => "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)",
            Engine::Mysql => "CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED)",
        };

        let sql = sql.replace("@now", now);
        if self.engine == Engine::Postgres {
            numbered(&sql)
        } else {
            sql
        }
    }

    /// An insert that does nothing, and affects 0 rows, if the row's key exists.
    ///
    /// The statement must begin with `INSERT INTO`.
    pub fn insert_if_absent(&self, sql: &str) -> Statement {
        let text = match self.engine {
            Engine::Mysql => sql.replacen("INSERT", "INSERT IGNORE", 1),
            Engine::Sqlite | Engine::Postgres => format!("{sql} ON CONFLICT DO NOTHING"),
        };
        self.assembled(&text)
    }

    /// An insert of several rows; the statement must end with the placeholders of one, `VALUES (?,
    /// ?)`.
    pub fn insert_rows(&self, sql: &'static str, rows: usize) -> Statement {
        self.assembled(&for_rows(sql, rows))
            .persistent(rows <= KEPT_ROWS)
    }

    /// An insert of several rows that skips a row whose key exists.
    pub fn insert_rows_if_absent(&self, sql: &str, rows: usize) -> Statement {
        let sql = for_rows(sql, rows);
        let text = match self.engine {
            Engine::Mysql => sql.replacen("INSERT", "INSERT IGNORE", 1),
            Engine::Sqlite | Engine::Postgres => format!("{sql} ON CONFLICT DO NOTHING"),
        };

        self.assembled(&text).persistent(rows <= KEPT_ROWS)
    }

    /// An insert into a table whose rows the database numbers, for [`super::Tx::insert_for_id`].
    pub fn insert_with_id(&self, sql: &'static str) -> Statement {
        match self.engine {
            Engine::Postgres => {
                sqlx::query(AssertSqlSafe(numbered(&format!("{sql} RETURNING id"))))
            }
            Engine::Sqlite => sqlx::query(AssertSqlSafe(format!("{sql} RETURNING id"))),
            Engine::Mysql => sqlx::query(sql),
        }
    }

    /// The suffix of an insert that returns columns of the new rows; `None` where they have to be
    /// read after it.
    pub fn returning(&self, columns: &str) -> Option<String> {
        (self.engine != Engine::Mysql).then(|| format!(" RETURNING {columns}"))
    }

    /// An insert that adds these columns to the existing row if its `key` exists.
    ///
    /// The statement must begin with `INSERT INTO <table>`.
    pub fn insert_or_add(&self, sql: &'static str, key: &str, columns: &[&str]) -> Statement {
        let table = sql.split_whitespace().nth(2).unwrap_or_default();
        let sums = columns.iter().map(|column| match self.engine {
            Engine::Mysql => format!("{column} = {column} + VALUES({column})"),
            Engine::Sqlite | Engine::Postgres => {
                format!("{column} = {table}.{column} + excluded.{column}")
            }
        });

        let sums = sums.collect::<Vec<_>>().join(", ");
        self.assembled(&match self.engine {
            Engine::Mysql => format!("{sql} ON DUPLICATE KEY UPDATE {sums}"),
            Engine::Sqlite | Engine::Postgres => {
                format!("{sql} ON CONFLICT ({key}) DO UPDATE SET {sums}")
            }
        })
    }

    /// The sum of a column as a 64-bit integer; the servers would return a decimal.
    pub fn whole_sum(&self, column: &str) -> String {
        let kind = if self.engine == Engine::Mysql {
            "SIGNED"
        } else {
            "BIGINT"
        };
        format!("CAST(COALESCE(SUM({column}), 0) AS {kind})")
    }

    /// The condition that a row `c` of `search_entries` contains one token, or a result of
    /// [`Dialect::any_token`].
    pub fn holds_tokens(&self) -> &'static str {
        match self.engine {
            Engine::Sqlite => {
                "c.id IN (SELECT rowid FROM search_entries_tokens WHERE search_entries_tokens MATCH ?)"
            }
            // As in the index, which uses the tokens as they are: its parser would take longer than
            // everything else.
            Engine::Postgres => {
                "array_to_tsvector(array_remove(string_to_array(translate(c.tokens, ';', ' '), ' '), '')) \
                 @@ to_tsquery('simple', ?)"
            }
            Engine::Mysql => "MATCH (c.tokens) AGAINST (? IN BOOLEAN MODE)",
        }
    }

    /// Searches the full-text index for any of these tokens, which contain only letters and digits.
    pub fn any_token(&self, tokens: &[String]) -> String {
        tokens.join(match self.engine {
            Engine::Sqlite => " OR ",
            Engine::Postgres => " | ",
            Engine::Mysql => " ",
        })
    }

    /// A join whose left side is read first. With little statistics, SQLite and MySQL would choose
    /// the wrong order.
    pub fn join_in_order(&self) -> &'static str {
        match self.engine {
            Engine::Sqlite => "CROSS JOIN",
            Engine::Postgres => "JOIN",
            Engine::Mysql => "STRAIGHT_JOIN",
        }
    }

    /// Joins one row of a table to each row before it, by a unique index. PostgreSQL has no hints:
    /// without statistics, right after an import, it would read the whole table for each row. What
    /// has an offset is planned by itself, and so can use only what `on` names.
    pub fn look_up(&self, table: &str, alias: &str, on: &str) -> String {
        match self.engine {
            Engine::Postgres => format!(
                " CROSS JOIN LATERAL (SELECT * FROM {table} {alias} WHERE {on} OFFSET 0) {alias}"
            ),
            Engine::Sqlite | Engine::Mysql => {
                format!(" {} {table} {alias} ON {on}", self.join_in_order())
            }
        }
    }

    /// The ordered values of a column, joined by [`JOINT`], which no text of ours contains.
    pub fn joined(&self, column: &str, order: &str) -> String {
        match self.engine {
            Engine::Sqlite => format!("group_concat({column}, char(31) ORDER BY {order})"),
            Engine::Postgres => format!("string_agg({column}, chr(31) ORDER BY {order})"),
            Engine::Mysql => format!("GROUP_CONCAT({column} ORDER BY {order} SEPARATOR '{JOINT}')"),
        }
    }

    /// Whether a condition that no row depends on is evaluated for each row; a limit of 0 is not.
    pub fn repeats_conditions(&self) -> bool {
        self.engine == Engine::Sqlite
    }

    /// The suffix of a `SELECT` that locks its row until the transaction ends. SQLite's writer
    /// already locks the whole file.
    pub fn query_for_update(&self, sql: &str) -> Statement {
        let text = match self.engine {
            Engine::Sqlite => sql.to_owned(),
            Engine::Mysql => format!("{sql} FOR UPDATE"),
            Engine::Postgres => numbered(&format!("{sql} FOR UPDATE")),
        };
        sqlx::query(AssertSqlSafe(text))
    }

    /// The suffix of a `SELECT` with a shared lock: others may share it, but can neither delete nor
    /// change the row.
    pub fn query_unchanged(&self, sql: &str) -> Statement {
        let text = match self.engine {
            Engine::Sqlite => sql.to_owned(),
            Engine::Mysql => format!("{sql} LOCK IN SHARE MODE"),
            Engine::Postgres => numbered(&format!("{sql} FOR SHARE")),
        };
        sqlx::query(AssertSqlSafe(text))
    }

    /// A shared lock on a row whose key matters: PostgreSQL lets others change its other columns.
    pub fn query_for_share(&self, sql: &str) -> Statement {
        let text = match self.engine {
            Engine::Sqlite => sql.to_owned(),
            Engine::Mysql => format!("{sql} LOCK IN SHARE MODE"),
            Engine::Postgres => numbered(&format!("{sql} FOR KEY SHARE")),
        };
        sqlx::query(AssertSqlSafe(text))
    }
}

/// Repeats the placeholders of one row, with which an insert ends.
fn for_rows(sql: &str, rows: usize) -> String {
    let (head, marks) = sql.split_once("VALUES ").unwrap_or((sql, "()"));
    format!("{head}VALUES {}", vec![marks; rows.max(1)].join(", "))
}

/// Replaces each `?` outside quotes and comments with `$1`, `$2`, ….
fn numbered(sql: &str) -> String {
    let mut text = String::with_capacity(sql.len() + 16);
    let mut count = 0;
    let mut quote = None;
    let mut comment = false;
    let mut previous = '\0';

    for c in sql.chars() {
        match (quote, c) {
            _ if comment => comment = c != '\n',
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), close) if open == close => quote = None,
            (None, '-') if previous == '-' => comment = true,
            (None, '?') => {
                count += 1;
                text.push('$');
                text.push_str(&count.to_string());
                previous = c;

                continue;
            }
            _ => {}
        }

        text.push(c);
        previous = c;
    }

    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_numbered_outside_quotes_and_comments() {
        for (given, wanted) in [
            ("a = ? AND b = ?", "a = $1 AND b = $2"),
            ("a = '?' AND b = ?", "a = '?' AND b = $1"),
            (
                "a = 'it''s ?' AND \"c?\" = ?",
                "a = 'it''s ?' AND \"c?\" = $1",
            ),
            ("a = ? -- why?\nAND b = ?", "a = $1 -- why?\nAND b = $2"),
            ("a - ? - -1", "a - $1 - -1"),
        ] {
            assert_eq!(numbered(given), wanted);
        }
    }
}
