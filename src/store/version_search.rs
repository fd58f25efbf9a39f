//! Rows of `document_versions` and `document_words`, and the statement that finds candidate
//! versions for document retrieval.
//!
//! Every way to find a version has its own limit (by name, by words, by each tag, by time), so that
//! the statement costs about the same however large the library is. The results are ordered
//! together and cut.

use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::candidates::{Bound, StatementBuilder};
use super::dialect::{Dialect, JOINT};
use super::source_versions::{self, read_version};
use super::sources::read_source;
use super::{Engine, Store, StoreError, Tx};
use crate::base::ids::{SourceId, Space};
use crate::base::words::whole_name;
use crate::model::source::{FILE_INGEST, Source};
use crate::model::version_search::{Choice, VersionCandidate, VersionSearch};

/// Maximum sources per word.
const BY_WORD: i64 = 500;
/// Maximum sources for all words together.
const BY_WORDS: i64 = 50;
/// Maximum sources for the tags. Tags that more sources have also occur among the first versions.
const BY_TAGS: i64 = 200;
const AMONG_FIRST: i64 = 300;
/// Minimum versions for a name.
const BY_NAME: i64 = 500;
/// Maximum words to search for.
const MOST_WORDS: usize = 12;
/// Maximum characters of text to fetch where all texts are needed.
const MOST_CHARS: i64 = 4_000_000;
/// Rows per insert.
const ROWS: usize = 200;

const SOURCE_COLUMNS: &str = "s.id, s.user_id, s.filename, s.path, s.type, s.eligible, s.latest_version, s.created_at, \
     s.updated_at";

/// What the pool takes from a version `d`, and from a way `p`.
const VERSION: &str = "d.version_id, d.source_id, d.ingested_at, d.char_count";
const POOLED: &str = "p.version_id, p.source_id, p.ingested_at, p.char_count, p.weight, p.named";
const OF_VERSION: &str = "s.space = d.space AND s.id = d.source_id AND s.eligible = 1";

impl Store {
    /// The candidate versions, best match first: by name, tags, time and words, in this order.
    pub async fn list_version_candidates(
        &self,
        space: &Space,
        search: &VersionSearch,
    ) -> Result<Vec<VersionCandidate>, StoreError> {
        let statement = Finding {
            space,
            search,
            dialect: &self.backend.dialect,
        }
        .statement();

        // The statement is long, and most requests have one of few shapes. MariaDB (10.11) loses a
        // column of a derived table when it runs such a prepared statement for the second time.
        let kept =
            search.words.len() <= 4 && search.tags.len() <= 4 && self.engine() != Engine::Mysql;
        self.retry("list_version_candidates", || async {
            self.fetch_all(self.put_together(&statement, kept))
                .await?
                .iter()
                .map(read_candidate)
                .collect()
        })
        .await
    }
}

impl Tx {
    /// Registers a completely written version by user, time and length.
    pub async fn add_document_version(
        &mut self,
        space: &Space,
        source_id: &SourceId,
        version_id: i64,
    ) -> Result<(), StoreError> {
        let insert = "INSERT INTO document_versions (space, version_id, source_id, user_id, ingested_at, char_count) \
                      SELECT v.space, v.id, v.source_id, s.user_id, v.ingested_at, v.char_count FROM source_versions v \
                      JOIN sources s ON s.space = v.space AND s.id = v.source_id \
                      WHERE v.space = ? AND v.id = ? AND s.id = ?";

        let insert = self
            .sql(insert)
            .bind(space.as_str())
            .bind(version_id)
            .bind(source_id.as_str());

        self.execute(insert).await.map(|_| ())
    }

    /// Registers words of a source; existing ones stay.
    pub async fn add_document_words(
        &mut self,
        space: &Space,
        source: &Source,
        words: &[String],
    ) -> Result<(), StoreError> {
        let sql =
            "INSERT INTO document_words (space, user_id, word, source_id) VALUES (?, ?, ?, ?)";
        for some in words.chunks(ROWS) {
            let mut insert = self.backend.dialect.insert_rows_if_absent(sql, some.len());
            for word in some {
                insert = insert.bind(space.as_str()).bind(source.user_id.as_str());
                insert = insert.bind(word.as_str()).bind(source.id.as_str());
            }

            self.execute(insert).await?;
        }

        Ok(())
    }
}

/// Composes the statement.
struct Finding<'f> {
    space: &'f Space,
    search: &'f VersionSearch,
    dialect: &'f Dialect,
}

impl Finding<'_> {
    fn statement(&self) -> StatementBuilder {
        let mut statement = StatementBuilder::default();
        statement.push("WITH ");
        self.hits(&mut statement);
        self.pool(&mut statement);
        self.ranked(&mut statement);

        statement
    }

    fn words(&self) -> &[String] {
        &self.search.words[..self.search.words.len().min(MOST_WORDS)]
    }

    /// The tags that not every source has.
    fn own_tags(&self) -> impl Iterator<Item = &String> {
        self.search.tags.iter().filter(|tag| *tag != FILE_INGEST)
    }

    /// Sources by words; a rare word counts more.
    fn hits(&self, statement: &mut StatementBuilder) {
        for (number, word) in self.words().iter().enumerate() {
            statement.push(if number == 0 {
                "hits (source_id, weight) AS (SELECT w.source_id, SUM(w.weight) AS weight FROM ("
            } else {
                " UNION ALL "
            });

            statement.push("SELECT n.source_id, 1000.0 / (10 + COUNT(*) OVER ()) AS weight FROM (SELECT n.source_id ");
            statement.text(
                "FROM document_words n WHERE n.space = ?",
                self.space.as_str(),
            );

            statement.text(" AND n.user_id = ?", &self.search.user_id);
            statement.text(" AND n.word = ?", word);
            self.first_unless_named(statement, " ORDER BY n.source_id", BY_WORD);
            statement.push(") n");
        }
        if !self.words().is_empty() {
            statement.limit(
                ") w GROUP BY w.source_id ORDER BY 2 DESC, w.source_id",
                BY_WORDS,
            );
            statement.push("), ");
        }
    }

    /// All candidates.
    fn pool(&self, statement: &mut StatementBuilder) {
        let join = self.dialect.join_in_order();
        statement.push("pool (version_id, source_id, ingested_at, char_count, weight, named) AS (");
        if let Some(name) = &self.search.filename {
            statement.push(&format!(
                "SELECT {POOLED} FROM (SELECT {VERSION}, 0.0 AS weight, 1 AS named FROM document_words n "
            ));
            statement.push(&format!(
                "{join} sources s ON s.space = n.space AND s.id = n.source_id AND s.eligible = 1 "
            ));
            statement.push(&format!(
                "{join} document_versions d ON d.space = n.space AND d.source_id = n.source_id "
            ));
            statement.text("WHERE n.space = ?", self.space.as_str());
            statement.text(" AND n.user_id = ?", &self.search.user_id);
            statement.text(" AND n.word = ? ORDER BY ", whole_name(name));

            // In the order in which filters are dropped, so that nothing that would be chosen is
            // cut.
            statement.text("CASE WHEN s.filename = ? THEN 0 ELSE 1 END, ", name);
            if self.own_tags().next().is_some() {
                statement.push("CASE WHEN ");
                self.carries_all(statement, "n.source_id");
                statement.push(" THEN 0 ELSE 1 END, ");
            }

            if let Some(moment) = self.search.as_of {
                statement.number(
                    "CASE WHEN d.ingested_at <= ? THEN 0 ELSE 1 END, ",
                    moment.as_micros(),
                );
            }

            statement.push(&self.order("d"));
            statement.limit("", BY_NAME.max(self.most()));
            statement.push(") p UNION ALL ");
        }

        if !self.words().is_empty() {
            // Words belong to the source; the texts show which of its versions contains them.
            if self.search.choice == Choice::Score {
                statement.push(&format!(
                    "SELECT {VERSION}, h.weight, 0 FROM hits h {join} document_versions d "
                ));
                statement.text(
                    "ON d.space = ? AND d.source_id = h.source_id",
                    self.space.as_str(),
                );
            } else {
                self.best_versions(statement, "h.weight");
                statement.push("hits h) h");
            }
            statement.push(" UNION ALL ");
        }

        self.by_tags(statement);
        self.by_time(statement, true);
        if self.search.as_of.is_some() {
            statement.push(" UNION ALL ");
            self.by_time(statement, false);
        }

        statement.push(") ");
    }

    /// Sources that have every tag: a limited number, and those among the first versions.
    fn by_tags(&self, statement: &mut StatementBuilder) {
        let tags: Vec<&String> = self.own_tags().collect();
        // The last tag was added last and is the most specific.
        let Some((last, others)) = tags.split_last() else {
            return;
        };
        self.best_versions(statement, "0.0");
        statement.push("(SELECT g.source_id FROM source_tags g ");
        statement.text("WHERE g.space = ?", self.space.as_str());
        statement.text(" AND g.tag = ?", *last);
        statement.push(
            " AND (SELECT s.user_id FROM sources s WHERE s.space = g.space AND s.id = g.source_id ",
        );
        statement.text("AND s.eligible = 1) = ?", &self.search.user_id);
        for tag in others {
            carries(statement, "g", tag);
        }

        self.first_unless_named(statement, " ORDER BY g.source_id", BY_TAGS);
        statement.push(") h) h");
        statement.push(&format!(
            " UNION ALL SELECT {POOLED} FROM (SELECT s.version_id, s.source_id, s.ingested_at, "
        ));
        statement.push("s.char_count, s.weight, s.named FROM (");
        self.first_versions(statement, true, AMONG_FIRST, ", d.space");
        statement.push(") s WHERE 1 = 1");
        for tag in &tags {
            carries(statement, "s", tag);
        }

        statement.limit("", self.most());
        statement.push(") p UNION ALL ");
    }

    /// The first of the user's versions by the strategy, whatever their content.
    fn by_time(&self, statement: &mut StatementBuilder, in_time: bool) {
        statement.push(&format!("SELECT {POOLED} FROM ("));
        self.first_versions(statement, in_time, self.most(), "");
        statement.push(") p");
    }

    fn first_versions(
        &self,
        statement: &mut StatementBuilder,
        in_time: bool,
        most: i64,
        more: &str,
    ) {
        let join = self.dialect.join_in_order();
        statement.push(&format!(
            "SELECT {VERSION}, 0.0 AS weight, 0 AS named{more} FROM document_versions d "
        ));
        statement.push(&format!("{join} sources s ON {OF_VERSION} "));
        statement.text("WHERE d.space = ?", self.space.as_str());
        statement.text(" AND d.user_id = ?", &self.search.user_id);
        if let Some(moment) = self.search.as_of.filter(|_| in_time) {
            statement.number(" AND d.ingested_at <= ?", moment.as_micros());
        }

        // Along an index: ties are ordered later.
        let order = match self.search.choice {
            Choice::Latest | Choice::Score => " ORDER BY d.ingested_at DESC, d.version_id DESC",
            Choice::Earliest => " ORDER BY d.ingested_at, d.version_id",
            Choice::Longest => " ORDER BY d.char_count DESC, d.version_id DESC",
        };

        self.first_unless_named(statement, order, most);
    }

    /// Orders the candidates, cuts them, and fetches the texts of those that would be chosen.
    fn ranked(&self, statement: &mut StatementBuilder) {
        let join = self.dialect.join_in_order();
        let versions: Vec<String> = source_versions::COLUMNS
            .split(", ")
            .map(|name| format!("v.{name}"))
            .collect();

        let texts = if self.search.texts { MOST_CHARS } else { 0 };
        statement.push(&format!(
            "SELECT {}, {SOURCE_COLUMNS}, ",
            versions.join(", ")
        ));

        // In one column: one row per tag would repeat all other columns.
        let tags = self.dialect.joined("t.tag", "t.position");
        statement.push(&format!(
            "(SELECT {tags} FROM source_tags t WHERE t.space = s.space AND t.source_id = s.id) AS tags, "
        ));
        statement.push(&format!(
            "CASE WHEN c.choice = 1 OR c.total <= {texts} THEN v.content END AS content "
        ));
        statement.push("FROM (SELECT q.version_id, q.place, SUM(q.char_count) OVER (ORDER BY q.place) AS total, ");
        statement.push("RANK() OVER (ORDER BY q.named DESC, q.tagged DESC, q.in_time DESC, ");
        statement.push(&format!(
            "{}) AS choice FROM (SELECT r.version_id, r.ingested_at, r.char_count, ",
            self.order("q")
        ));

        statement.push("r.named, r.tagged, r.in_time, ROW_NUMBER() OVER (ORDER BY r.named DESC, r.tagged DESC, ");
        statement.push(&format!(
            "r.in_time DESC, r.weight DESC, {}, r.version_id) AS place FROM (",
            self.order("r")
        ));

        statement.push("SELECT p.version_id, p.weight, p.ingested_at, p.char_count, ");
        match &self.search.filename {
            Some(name) => {
                let of_it = "CASE WHEN (SELECT s.filename FROM sources s WHERE s.space = ? AND s.id = p.source_id)";
                statement.text(of_it, self.space.as_str());
                statement.text(" = ? THEN 2 ELSE p.named END AS named, ", name);
            }
            None => statement.push("p.named AS named, "),
        }

        self.tagged(statement);
        match self.search.as_of {
            Some(moment) => {
                statement.number(
                    "CASE WHEN p.ingested_at <= ? THEN 1 ELSE 0 END AS in_time ",
                    moment.as_micros(),
                );
            }
            None => statement.push("1 AS in_time "),
        }

        statement.push("FROM (SELECT version_id, MIN(source_id) AS source_id, MIN(ingested_at) AS ingested_at, ");
        statement.push(
            "MIN(char_count) AS char_count, MAX(weight) AS weight, MAX(named) AS named FROM pool ",
        );
        statement.push("WHERE version_id IS NOT NULL GROUP BY version_id) p ");
        statement.text(
            "WHERE (SELECT s.eligible FROM sources s WHERE s.space = ?",
            self.space.as_str(),
        );

        statement.push(" AND s.id = p.source_id) = 1) r ");
        statement.limit("ORDER BY place", self.most());
        statement.push(") q) c ");
        statement.push(&format!("{join} source_versions v "));
        statement.text(
            "ON v.space = ? AND v.id = c.version_id ",
            self.space.as_str(),
        );

        statement.push(&format!(
            "{join} sources s ON s.space = v.space AND s.id = v.source_id ORDER BY c.place"
        ));
    }

    /// Whether a source has every wanted tag.
    fn tagged(&self, statement: &mut StatementBuilder) {
        if self.own_tags().next().is_none() {
            statement.push("1 AS tagged, ");
            return;
        }

        statement.push("CASE WHEN ");
        self.carries_all(statement, "p.source_id");
        statement.push(" THEN 1 ELSE 0 END AS tagged, ");
    }

    /// The condition that a source has every wanted tag.
    fn carries_all(&self, statement: &mut StatementBuilder, source_id: &str) {
        let tags: Vec<&String> = self.own_tags().collect();
        statement.text(
            "(SELECT COUNT(*) FROM source_tags g WHERE g.space = ?",
            self.space.as_str(),
        );

        let marks = vec!["?"; tags.len()].join(",");
        statement.push(&format!(
            " AND g.source_id = {source_id} AND g.tag IN ({marks})) = {}",
            tags.len()
        ));

        statement
            .values
            .extend(tags.into_iter().map(|tag| Bound::Text(tag.clone())));
    }

    /// The end of a way that is skipped if the given name is known.
    fn first_unless_named(&self, statement: &mut StatementBuilder, order: &str, most: i64) {
        let Some(name) = &self.search.filename else {
            statement.push(order);
            return statement.limit("", most);
        };

        let in_limit = self.dialect.repeats_conditions();
        statement.push(&if in_limit {
            format!("{order} LIMIT (CASE WHEN EXISTS (")
        } else {
            " AND NOT EXISTS (".to_owned()
        });

        statement.push("SELECT 1 FROM document_words x JOIN sources y ON y.space = x.space AND y.id = x.source_id ");
        statement.text(
            "AND y.eligible = 1 AND y.latest_version > 0 WHERE x.space = ?",
            self.space.as_str(),
        );

        statement.text(" AND x.user_id = ?", &self.search.user_id);
        statement.text(" AND x.word = ?)", whole_name(name));
        statement.push(&if in_limit {
            format!(" THEN 0 ELSE {most} END)")
        } else {
            format!("{order} LIMIT {most}")
        });
    }

    /// For each of the sources `h` named next, the version that would be chosen.
    ///
    /// Looked up source by source, which no planner can turn into a full scan.
    fn best_versions(&self, statement: &mut StatementBuilder, weight: &str) {
        for column in ["ingested_at", "char_count"] {
            statement.push(if column == "ingested_at" {
                "SELECT h.version_id, h.source_id, "
            } else {
                ", "
            });

            statement.text(
                &format!("(SELECT d.{column} FROM document_versions d WHERE d.space = ?"),
                self.space.as_str(),
            );

            statement.push(" AND d.version_id = h.version_id)");
        }

        statement.push(", h.weight, 0 FROM (SELECT h.source_id, ");
        let order = match self.search.choice {
            // Both use an index.
            Choice::Latest | Choice::Score => {
                "b.ingested_at DESC, b.char_count DESC, b.version_id DESC"
            }
            Choice::Earliest => "b.ingested_at, b.char_count, b.version_id",
            Choice::Longest => "b.char_count DESC, b.version_id",
        };

        let of_it = "(SELECT b.version_id FROM document_versions b WHERE b.space = ?";
        if let Some(moment) = self.search.as_of {
            statement.text(
                &format!("COALESCE({of_it} AND b.source_id = h.source_id"),
                self.space.as_str(),
            );
            statement.number(
                &format!(" AND b.ingested_at <= ? ORDER BY {order} LIMIT 1), "),
                moment.as_micros(),
            );
        }

        statement.text(of_it, self.space.as_str());
        statement.push(&format!(
            " AND b.source_id = h.source_id ORDER BY {order} LIMIT 1)"
        ));
        statement.push(if self.search.as_of.is_some() { ")" } else { "" });
        statement.push(&format!(" AS version_id, {weight} AS weight FROM "));
    }

    fn order(&self, table: &str) -> String {
        match self.search.choice {
            Choice::Latest | Choice::Score => {
                format!("{table}.ingested_at DESC, {table}.char_count DESC")
            }
            Choice::Earliest => format!("{table}.ingested_at"),
            Choice::Longest => format!("{table}.char_count DESC"),
        }
    }

    fn most(&self) -> i64 {
        i64::try_from(self.search.most).unwrap_or(i64::MAX)
    }
}

/// A condition on a table that names sources.
fn carries(statement: &mut StatementBuilder, table: &str, tag: &str) {
    statement.push(&format!(
        " AND (SELECT COUNT(*) FROM source_tags o WHERE o.space = {table}.space "
    ));
    statement.text(
        &format!("AND o.source_id = {table}.source_id AND o.tag = ?) = 1"),
        tag,
    );
}

fn read_candidate(row: &AnyRow) -> Result<VersionCandidate, StoreError> {
    let tags: Option<String> = row.try_get("tags")?;
    let mut source = read_source(row)?;
    source.tags = tags
        .iter()
        .flat_map(|tags| tags.split(JOINT))
        .map(ToOwned::to_owned)
        .collect();

    Ok(VersionCandidate {
        source,
        version: read_version(row)?,
        content: row.try_get("content")?,
    })
}
