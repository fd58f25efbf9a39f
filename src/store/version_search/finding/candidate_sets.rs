//! The ways to find a version: by the name of its source, by words, by tags, by time. Each yields
//! rows of the pool.

use memoir_text::words::filename_key;

use super::Finding;
use crate::model::version_search::Choice;
use crate::store::candidates::StatementBuilder;
use crate::store::row_limit;

/// Maximum sources for the tags. Tags that more sources have also occur among the first versions.
const BY_TAGS: usize = 200;
const AMONG_FIRST: usize = 300;
/// Minimum versions for a name.
const BY_NAME: usize = 500;

/// What the pool takes from a version `d`, and from a way `p`.
const VERSION: &str = "d.version_id, d.source_id, d.ingested_at, d.char_count";
const POOLED: &str = "p.version_id, p.source_id, p.ingested_at, p.char_count, p.weight, p.named";

impl Finding<'_> {
    /// The ways that this search takes.
    pub(super) fn ways(&self) -> Vec<StatementBuilder> {
        let mut ways = Vec::new();
        if let Some(name) = &self.search.filename {
            ways.push(self.by_name(name));
        }

        if !self.search.hits.is_empty() {
            ways.push(self.by_words());
        }

        let tags: Vec<&String> = self.own_tags().collect();
        // The last tag was added last and is the most specific.
        if let Some((last, others)) = tags.split_last() {
            ways.push(self.by_tags(last, others));
            ways.push(self.first_with_tags(&tags));
        }

        ways.push(self.by_time(true));
        if self.search.as_of.is_some() {
            ways.push(self.by_time(false));
        }

        ways
    }

    /// Versions of sources with this name.
    fn by_name(&self, name: &str) -> StatementBuilder {
        let join = self.dialect.join_in_order();
        let mut statement = StatementBuilder::of(&format!(
            "SELECT {POOLED} FROM (SELECT {VERSION}, 0.0 AS weight, 1 AS named FROM sources s \
             {join} document_versions d ON d.space = s.space AND d.source_id = s.id AND s.eligible = 1 "
        ));

        statement.text("WHERE s.space = ?", self.space.as_str());
        statement.text(" AND s.user_id = ?", &self.search.user_id);
        statement.text(" AND s.filename_key = ? ORDER BY ", filename_key(name));

        // In the order in which filters are dropped, so that nothing that would be chosen is cut.
        statement.text("CASE WHEN s.filename = ? THEN 0 ELSE 1 END, ", name);
        if self.own_tags().next().is_some() {
            statement.push("CASE WHEN ");
            self.carries_all(&mut statement, "s.id");
            statement.push(" THEN 0 ELSE 1 END, ");
        }

        if let Some(moment) = self.search.as_of {
            statement.number(
                "CASE WHEN d.ingested_at <= ? THEN 0 ELSE 1 END, ",
                moment.as_micros(),
            );
        }

        statement.limit(&self.order("d"), BY_NAME.max(self.search.most));
        statement.push(") p");
        statement
    }

    /// Versions of the sources that the words hit. Words belong to the source; the texts show which
    /// of its versions contains them.
    fn by_words(&self) -> StatementBuilder {
        if self.search.choice != Choice::Score {
            return self.best_versions("h.weight", StatementBuilder::of("hits"));
        }

        let join = self.dialect.join_in_order();
        let mut statement = StatementBuilder::of(&format!(
            "SELECT {VERSION}, h.weight, 0 FROM hits h {join} document_versions d "
        ));

        statement.text(
            "ON d.space = ? AND d.source_id = h.source_id",
            self.space.as_str(),
        );
        statement
    }

    /// Sources that have every tag: a limited number.
    fn by_tags(&self, last: &str, others: &[&String]) -> StatementBuilder {
        let mut sources = StatementBuilder::of("(SELECT g.source_id FROM source_tags g ");
        sources.text("WHERE g.space = ?", self.space.as_str());
        sources.text(" AND g.tag = ?", last);
        sources.text(
            " AND (SELECT s.user_id FROM sources s WHERE s.space = g.space AND s.id = g.source_id \
             AND s.eligible = 1) = ?",
            &self.search.user_id,
        );

        for tag in others {
            carries(&mut sources, "g", tag);
        }

        self.first_unless_named(&mut sources, " ORDER BY g.source_id", BY_TAGS);
        sources.push(")");
        self.best_versions("0.0", sources)
    }

    /// Those that have every tag among the first versions.
    fn first_with_tags(&self, tags: &[&String]) -> StatementBuilder {
        let mut statement = StatementBuilder::of(&format!(
            "SELECT {POOLED} FROM (SELECT s.version_id, s.source_id, s.ingested_at, s.char_count, \
             s.weight, s.named FROM ("
        ));

        statement.append(self.first_versions(true, AMONG_FIRST, ", d.space"));
        statement.push(") s WHERE 1 = 1");
        for tag in tags {
            carries(&mut statement, "s", tag);
        }

        statement.limit("", self.search.most);
        statement.push(") p");
        statement
    }

    /// The first of the user's versions by the strategy, whatever their content.
    fn by_time(&self, in_time: bool) -> StatementBuilder {
        let mut statement = StatementBuilder::of(&format!("SELECT {POOLED} FROM ("));
        statement.append(self.first_versions(in_time, self.search.most, ""));
        statement.push(") p");
        statement
    }

    fn first_versions(&self, in_time: bool, most: usize, more: &str) -> StatementBuilder {
        let join = self.dialect.join_in_order();
        let mut statement = StatementBuilder::of(&format!(
            "SELECT {VERSION}, 0.0 AS weight, 0 AS named{more} FROM document_versions d \
             {join} sources s ON s.space = d.space AND s.id = d.source_id AND s.eligible = 1 "
        ));

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

        self.first_unless_named(&mut statement, order, most);
        statement
    }

    /// For each of these sources, the version that would be chosen.
    ///
    /// Looked up source by source, which no planner can turn into a full scan.
    fn best_versions(&self, weight: &str, sources: StatementBuilder) -> StatementBuilder {
        let space = self.space.as_str();
        let mut statement = StatementBuilder::of("SELECT h.version_id, h.source_id");
        for column in ["ingested_at", "char_count"] {
            statement.text(
                &format!(
                    ", (SELECT d.{column} FROM document_versions d WHERE d.space = ? \
                     AND d.version_id = h.version_id)"
                ),
                space,
            );
        }

        statement.push(", h.weight, 0 FROM (SELECT h.source_id, ");
        self.best_version(&mut statement);
        statement.push(&format!(" AS version_id, {weight} AS weight FROM "));
        statement.append(sources);
        statement.push(" h) h");
        statement
    }

    /// The version of the source `h` that would be chosen: one in time, if there is any.
    fn best_version(&self, statement: &mut StatementBuilder) {
        let space = self.space.as_str();
        let order = match self.search.choice {
            // Both use an index.
            Choice::Latest | Choice::Score => {
                "b.ingested_at DESC, b.char_count DESC, b.version_id DESC"
            }
            Choice::Earliest => "b.ingested_at, b.char_count, b.version_id",
            Choice::Longest => "b.char_count DESC, b.version_id",
        };

        let of_it = "(SELECT b.version_id FROM document_versions b WHERE b.space = ? \
                     AND b.source_id = h.source_id";
        let any = format!("{of_it} ORDER BY {order} LIMIT 1)");
        let Some(moment) = self.search.as_of else {
            return statement.text(&any, space);
        };

        statement.text(&format!("COALESCE({of_it}"), space);
        statement.number(
            &format!(" AND b.ingested_at <= ? ORDER BY {order} LIMIT 1), "),
            moment.as_micros(),
        );
        statement.text(&format!("{any})"), space);
    }

    /// The end of a way that is skipped if the given name is known.
    pub(super) fn first_unless_named(
        &self,
        statement: &mut StatementBuilder,
        order: &str,
        most: usize,
    ) {
        let Some(name) = &self.search.filename else {
            return statement.limit(order, most);
        };

        let most = row_limit(most);
        let in_limit = self.dialect.repeats_conditions();
        statement.push(&if in_limit {
            format!("{order} LIMIT (CASE WHEN EXISTS (")
        } else {
            " AND NOT EXISTS (".to_owned()
        });

        statement.text(
            "SELECT 1 FROM sources y WHERE y.eligible = 1 AND y.latest_version > 0 AND y.space = ?",
            self.space.as_str(),
        );

        statement.text(" AND y.user_id = ?", &self.search.user_id);
        statement.text(" AND y.filename_key = ?)", filename_key(name));
        statement.push(&if in_limit {
            format!(" THEN 0 ELSE {most} END)")
        } else {
            format!("{order} LIMIT {most}")
        });
    }
}

/// A condition on a table that names sources.
fn carries(statement: &mut StatementBuilder, table: &str, tag: &str) {
    statement.text(
        &format!(
            " AND (SELECT COUNT(*) FROM source_tags o WHERE o.space = {table}.space \
             AND o.source_id = {table}.source_id AND o.tag = ?) = 1"
        ),
        tag,
    );
}
