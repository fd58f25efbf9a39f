//! Composes the statement that finds candidate versions.
//!
//! Every way to find a version has its own limit (by name, by words, by each tag, by time), so that
//! the statement costs about the same however large the library is. The results are ordered
//! together and cut.

mod candidate_sets;

use crate::base::ids::Space;
use crate::model::source::FILE_INGEST;
use crate::model::version_search::{Choice, VersionSearch};
use crate::store::candidates::{Bound, StatementBuilder};
use crate::store::dialect::Dialect;
use crate::store::source_versions;

/// Maximum characters of text to fetch where all texts are needed.
const MAX_CHARS: i64 = 4_000_000;

const SOURCE_COLUMNS: &str = "s.id, s.user_id, s.filename, s.path, s.type, s.eligible, s.latest_version, s.created_at, \
     s.updated_at";

/// The statement for one search.
pub struct Finding<'f> {
    space: &'f Space,
    search: &'f VersionSearch,
    dialect: &'f Dialect,
}

impl<'f> Finding<'f> {
    pub fn new(space: &'f Space, search: &'f VersionSearch, dialect: &'f Dialect) -> Self {
        Self {
            space,
            search,
            dialect,
        }
    }

    pub fn statement(&self) -> StatementBuilder {
        let mut statement = StatementBuilder::of("WITH ");
        if !self.search.hits.is_empty() {
            statement.push("hits (source_id, weight) AS (");
            statement.append(self.hits());
            statement.push("), ");
        }

        statement.push("pool (version_id, source_id, ingested_at, char_count, weight, named) AS (");
        for (number, way) in self.ways().into_iter().enumerate() {
            statement.push(if number == 0 { "" } else { " UNION ALL " });
            statement.append(way);
        }

        statement.push(") ");
        statement.append(self.chosen());
        statement
    }

    /// The sources that a search found by words, with their scores.
    fn hits(&self) -> StatementBuilder {
        let mut statement = StatementBuilder::of("SELECT s.id AS source_id, CASE s.id");
        for (id, score) in &self.search.hits {
            statement.text(" WHEN ?", id.as_str());
            statement.push(&format!(" THEN {score:.9}"));
        }

        statement.text(
            " ELSE 0.0 END AS weight FROM sources s WHERE s.space = ?",
            self.space.as_str(),
        );
        statement.text(" AND s.user_id = ?", &self.search.user_id);
        let marks = vec!["?"; self.search.hits.len()].join(",");
        statement.push(&format!(" AND s.id IN ({marks})"));
        let ids = self.search.hits.iter();
        statement
            .values
            .extend(ids.map(|(id, _)| Bound::Text(id.as_str().to_owned())));

        self.first_unless_named(&mut statement, " ORDER BY s.id", self.search.hits.len());
        statement
    }

    /// The best candidates with everything that is known of them, and the texts of those that would
    /// be chosen.
    fn chosen(&self) -> StatementBuilder {
        let join = self.dialect.join_in_order();
        let versions: Vec<String> = source_versions::COLUMNS
            .split(", ")
            .map(|name| format!("v.{name}"))
            .collect();

        // In one column: one row per tag would repeat all other columns.
        let tags = self.dialect.joined("t.tag", "t.position");
        let texts = if self.search.texts { MAX_CHARS } else { 0 };
        let mut statement = StatementBuilder::of(&format!(
            "SELECT {}, {SOURCE_COLUMNS}, \
             (SELECT {tags} FROM source_tags t WHERE t.space = s.space AND t.source_id = s.id) AS tags, \
             CASE WHEN c.choice = 1 OR c.total <= {texts} THEN v.content END AS content FROM (",
            versions.join(", ")
        ));

        statement.append(self.placed());
        statement.text(
            &format!(") c {join} source_versions v ON v.space = ? AND v.id = c.version_id "),
            self.space.as_str(),
        );
        statement.push(&format!(
            "{join} sources s ON s.space = v.space AND s.id = v.source_id ORDER BY c.place"
        ));
        statement
    }

    /// Orders the candidates and cuts them. `choice` is 1 for those that would be chosen, `total`
    /// the characters up to each.
    fn placed(&self) -> StatementBuilder {
        let mut statement = StatementBuilder::of(&format!(
            "SELECT q.version_id, q.place, SUM(q.char_count) OVER (ORDER BY q.place) AS total, \
             RANK() OVER (ORDER BY q.named DESC, q.tagged DESC, q.in_time DESC, {}) AS choice FROM (\
             SELECT r.version_id, r.ingested_at, r.char_count, r.named, r.tagged, r.in_time, \
             ROW_NUMBER() OVER (ORDER BY r.named DESC, r.tagged DESC, r.in_time DESC, r.weight DESC, \
             {}, r.version_id) AS place FROM (",
            self.order("q"),
            self.order("r")
        ));

        statement.append(self.judged());
        statement.limit(") r ORDER BY place", self.search.most);
        statement.push(") q");
        statement
    }

    /// Each candidate once, with what it matches: the name, all tags, the time.
    fn judged(&self) -> StatementBuilder {
        let space = self.space.as_str();
        let mut statement =
            StatementBuilder::of("SELECT p.version_id, p.weight, p.ingested_at, p.char_count, ");

        match &self.search.filename {
            Some(name) => {
                let of_it = "CASE WHEN (SELECT s.filename FROM sources s WHERE s.space = ? AND s.id = p.source_id)";
                statement.text(of_it, space);
                statement.text(" = ? THEN 2 ELSE p.named END AS named, ", name);
            }
            None => statement.push("p.named AS named, "),
        }

        if self.own_tags().next().is_some() {
            statement.push("CASE WHEN ");
            self.carries_all(&mut statement, "p.source_id");
            statement.push(" THEN 1 ELSE 0 END AS tagged, ");
        } else {
            statement.push("1 AS tagged, ");
        }

        match self.search.as_of {
            Some(moment) => statement.number(
                "CASE WHEN p.ingested_at <= ? THEN 1 ELSE 0 END AS in_time ",
                moment.as_micros(),
            ),
            None => statement.push("1 AS in_time "),
        }

        statement.push(
            "FROM (SELECT version_id, MIN(source_id) AS source_id, MIN(ingested_at) AS ingested_at, \
             MIN(char_count) AS char_count, MAX(weight) AS weight, MAX(named) AS named FROM pool \
             WHERE version_id IS NOT NULL GROUP BY version_id) p ",
        );
        statement.text(
            "WHERE (SELECT s.eligible FROM sources s WHERE s.space = ? AND s.id = p.source_id) = 1",
            space,
        );
        statement
    }

    /// The tags that not every source has.
    fn own_tags(&self) -> impl Iterator<Item = &String> {
        self.search.tags.iter().filter(|tag| *tag != FILE_INGEST)
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

    /// The order of the strategy.
    fn order(&self, table: &str) -> String {
        match self.search.choice {
            Choice::Latest | Choice::Score => {
                format!("{table}.ingested_at DESC, {table}.char_count DESC")
            }
            Choice::Earliest => format!("{table}.ingested_at"),
            Choice::Longest => format!("{table}.char_count DESC"),
        }
    }
}
