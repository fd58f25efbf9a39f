//! The schema: the same on three engines, safe to migrate from several processes, rejected if it is
//! newer than the binary.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use memoir::config::database::Engine;
use memoir::store::{SCHEMA_VERSION, Store, StoreError};
use memoir_text::hash::sha256_hex;
use sqlx::Row as _;

use crate::support::app::load;
use crate::support::database::TestDatabase;

async fn store(database: &TestDatabase) -> Store {
    Store::connect(&load(&database.url, &[]).database)
        .await
        .unwrap()
}

#[test]
fn the_three_folders_contain_the_same_files() {
    let names = |engine: &str| -> BTreeSet<String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("migrations")
            .join(engine);
        std::fs::read_dir(folder)
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect()
    };

    assert_eq!(names("sqlite"), names("postgres"));
    assert_eq!(names("sqlite"), names("mysql"));
    assert_eq!(
        i64::try_from(names("sqlite").len()).unwrap(),
        SCHEMA_VERSION,
        "a file is not in the list of migrate.rs"
    );
}

/// The stored databases of earlier builds fail as well after an edit, even if `SHA256SUMS` is edited
/// with it.
#[test]
fn migrations_are_added_and_never_edited() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
    let listed = std::fs::read_to_string(folder.join("SHA256SUMS")).unwrap();
    let mut listed: BTreeMap<&str, &str> = listed
        .lines()
        .map(|line| {
            let (checksum, file) = line.split_once("  ").unwrap();
            (file, checksum)
        })
        .collect();

    for engine in ["mysql", "postgres", "sqlite"] {
        for file in std::fs::read_dir(folder.join(engine)).unwrap() {
            let file = file.unwrap();
            let name = format!("{engine}/{}", file.file_name().into_string().unwrap());
            let checksum = sha256_hex(&std::fs::read(file.path()).unwrap());
            match listed.remove(name.as_str()) {
                Some(known) => assert_eq!(
                    checksum, known,
                    "migrations/{name} was edited, and databases that ran it would not start any more. Restore the \
                     file, and put the change into a new migration with the next number."
                ),
                None => panic!(
                    "migrations/{name} is new. Add this line to migrations/SHA256SUMS:\n{checksum}  {name}"
                ),
            }
        }
    }

    assert!(
        listed.is_empty(),
        "migrations were removed or renamed, and databases that ran them would not start any more. Restore {:?}.",
        listed.keys()
    );
}

#[tokio::test]
async fn tables_and_columns_are_the_same_on_every_engine() {
    let mut first: Option<BTreeMap<String, BTreeSet<String>>> = None;
    for database in TestDatabase::each().await {
        store(&database).await.migrate().await.unwrap();
        let columns = columns(&database).await;
        assert!(columns.len() > 10 && columns["chunks"].contains("category_id"));
        match &first {
            None => first = Some(columns),
            Some(first) => assert_eq!(first, &columns, "{:?}", database.engine),
        }
    }
}

async fn columns(database: &TestDatabase) -> BTreeMap<String, BTreeSet<String>> {
    let sql = match database.engine {
        Engine::Sqlite => {
            "SELECT m.name, p.name FROM sqlite_master m JOIN pragma_table_info(m.name) p WHERE m.type = 'table' \
             AND m.name NOT LIKE 'sqlite_%' AND m.name NOT LIKE 'search\\_entries\\_tokens%' ESCAPE '\\'"
        }
        Engine::Postgres => {
            "SELECT CAST(table_name AS TEXT), CAST(column_name AS TEXT) FROM information_schema.columns \
             WHERE table_schema = current_schema()"
        }
        Engine::Mysql => {
            "SELECT CAST(table_name AS CHAR), CAST(column_name AS CHAR) FROM information_schema.columns \
             WHERE table_schema = DATABASE()"
        }
    };

    let rows = sqlx::query(sql)
        .fetch_all(&mut database.connect().await)
        .await
        .unwrap();

    let mut tables: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for row in rows {
        tables.entry(row.get(0)).or_default().insert(row.get(1));
    }

    tables
}

#[tokio::test]
async fn a_second_run_changes_nothing() {
    for database in TestDatabase::each().await {
        let store = store(&database).await;
        assert_eq!(store.schema_version().await.unwrap(), 0);
        assert_eq!(
            i64::try_from(store.migrate().await.unwrap().applied.len()).unwrap(),
            SCHEMA_VERSION
        );

        assert!(store.migrate().await.unwrap().applied.is_empty());
        assert_eq!(store.schema_version().await.unwrap(), SCHEMA_VERSION);
        assert_eq!(store.find_missing().await.unwrap(), []);
    }
}

#[tokio::test]
async fn several_processes_can_migrate_at_once() {
    for database in TestDatabase::each().await {
        let mut starting = tokio::task::JoinSet::new();
        for _ in 0..6 {
            let config = load(&database.url, &[]).database;
            starting.spawn(async move {
                Store::connect(&config)
                    .await
                    .unwrap()
                    .migrate()
                    .await
                    .unwrap()
                    .applied
                    .len()
            });
        }

        let mut applied = starting.join_all().await;
        applied.sort_unstable();
        let all = usize::try_from(SCHEMA_VERSION).unwrap();
        assert_eq!(
            applied,
            [0, 0, 0, 0, 0, all],
            "{:?}: one runs them, the others wait",
            database.engine
        );
    }
}

#[tokio::test]
async fn rejects_a_newer_or_changed_schema() {
    for database in TestDatabase::each().await {
        store(&database).await.migrate().await.unwrap();
        database
            .execute("INSERT INTO schema_migrations VALUES (9999, '9999_future', 'x')")
            .await;
        let error = store(&database).await.migrate().await.unwrap_err();
        assert!(matches!(error, StoreError::Schema(_)));
        assert!(
            error
                .to_string()
                .contains("version 9999 (9999_future), newer than this memoir supports"),
            "{error}"
        );

        database
            .execute("DELETE FROM schema_migrations WHERE version = 9999")
            .await;
        database
            .execute("UPDATE schema_migrations SET checksum = 'other' WHERE version = 2")
            .await;
        let error = store(&database).await.migrate().await.unwrap_err();
        assert!(
            error
                .to_string()
                .contains("0002_sources was applied in a different form"),
            "{error}"
        );

        // The lock was released; otherwise this would wait for it.
        database
            .execute("DELETE FROM schema_migrations WHERE version = 9998")
            .await;
        assert!(store(&database).await.schema_version().await.is_ok());
    }
}

/// MySQL commits each table separately: a migration that died halfway must not prevent the next
/// start.
#[tokio::test]
async fn the_next_start_completes_an_interrupted_migration() {
    let Some(database) = TestDatabase::mysql().await else {
        return;
    };
    let sql = include_str!("../../migrations/mysql/0002_sources.sql");
    let (first, _) = sql.split_once(";\n").unwrap();
    database.execute(first).await;
    let store = store(&database).await;

    store.migrate().await.unwrap();
    assert_eq!(store.find_missing().await.unwrap(), []);
}

#[tokio::test]
async fn dropped_tables_and_indexes_are_named() {
    for database in TestDatabase::each().await {
        let store = store(&database).await;
        store.migrate().await.unwrap();
        let on = if database.engine == Engine::Mysql {
            " ON queries"
        } else {
            ""
        };

        database
            .execute(&format!("DROP INDEX queries_created{on}"))
            .await;
        database.execute("DROP TABLE idempotency_keys").await;
        let missing: Vec<String> = store
            .find_missing()
            .await
            .unwrap()
            .iter()
            .map(ToString::to_string)
            .collect();

        assert_eq!(
            missing,
            [
                "table idempotency_keys",
                "index idempotency_keys_created",
                "index queries_created"
            ]
        );
    }
}

/// Rules that the database itself enforces, whatever the code does: the tree, unique names, and no
/// references between spaces.
#[tokio::test]
async fn the_schema_enforces_its_rules() {
    let category = |id: i64, space: &str, parent: &str, key: i64, level: i64, name: &str| {
        format!(
            "INSERT INTO categories (id, space, parent_id, parent_key, level, name, name_key, created_at) VALUES ({id}, '{space}', {parent}, {key}, {level}, '{name}', '{name}', 0)"
        )
    };

    let source = "INSERT INTO sources (space, id, user_id, filename, filename_key, path, path_key, type, kind, eligible, latest_version, created_at, updated_at) VALUES ('a', 's', 'u', 'f', 'f', '/f', 'k', 'md', 'file_ingest', 1, 1, 0, 0)";
    let version = "INSERT INTO source_versions (id, space, source_id, version, content, sha256, size_bytes, char_count, token_count, metadata_json, ingested_at) VALUES (1, 'a', 's', 1, 'x', 'h', 1, 1, 1, '{}', 0)";
    let chunk = |ordinal: i64, profile: &str, category: &str| {
        format!(
            "INSERT INTO chunks (space, source_id, version_id, profile, ordinal, text_content, token_count, char_count, start_char, end_char, category_id, created_at) VALUES ('a', 's', 1, '{profile}', {ordinal}, 'x', 1, 1, 0, 1, {category}, 0)"
        )
    };

    for database in TestDatabase::each().await {
        store(&database).await.migrate().await.unwrap();
        for good in [
            category(1, "a", "NULL", 0, 1, "Root"),
            category(2, "a", "1", 1, 2, "Leaf"),
            category(3, "b", "NULL", 0, 1, "Root"),
            category(4, "a", "NULL", 0, 1, "root"),
            source.to_owned(),
            version.to_owned(),
            chunk(1, "taxonomy", "2"),
            chunk(1, "retrieval", "NULL"),
        ] {
            database.execute(&good).await;
        }

        let mut connection = database.connect().await;
        for bad in [
            category(10, "a", "NULL", 0, 1, "Root"), // a second root of that name
            category(11, "a", "NULL", 0, 2, "Orphan"), // level 2 without a parent
            category(12, "a", "1", 1, 1, "Top"),     // level 1 with a parent
            category(13, "a", "1", 1, 101, "Deep"),  // too deep
            category(14, "b", "1", 1, 2, "Spy"),     // a parent in another space
            chunk(2, "taxonomy", "NULL"),            // filed nowhere
            chunk(2, "taxonomy", "3"),               // filed in another space
            chunk(1, "taxonomy", "2"),               // the same chunk twice
            source.replace("'s'", "'s2'"),           // the same path twice
        ] {
            let outcome = sqlx::raw_sql(sqlx::AssertSqlSafe(bad.clone()))
                .execute(&mut connection)
                .await;
            assert!(outcome.is_err(), "{:?} accepted {bad}", database.engine);
        }

        // Everything that belongs to a source is deleted with it.
        database
            .execute("DELETE FROM sources WHERE space = 'a'")
            .await;
        let left = sqlx::query(
            "SELECT (SELECT COUNT(*) FROM chunks) + (SELECT COUNT(*) FROM source_versions)",
        );
        assert_eq!(
            left.fetch_one(&mut connection)
                .await
                .unwrap()
                .get::<i64, _>(0),
            0
        );
    }
}
