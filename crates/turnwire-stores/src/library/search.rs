//! Search for chunks: by words in the database's full-text index, by exact comparison of vectors,
//! and both combined by reciprocal rank fusion.

use std::collections::HashMap;

use tracing::warn;
use turnwire_contract::{
    CollectionId, EmbeddingError, FileId, Filter, FoundChunk, Query, RANKED, SearchResults,
    TenantId, fused,
};

use super::{
    Result, StoreLibrary,
    collections::CollectionRow,
    now,
    pgvector::Region,
    vectors::{ChunkPosition, Nearest},
};
use crate::{
    database::{DatabaseError, Row, Value, is_word, values},
    failures::decode,
};

/// Vectors compared per query: a few megabytes.
const AT_ONCE: i64 = 8 * 1024;

/// The scope of a search.
struct Scope<'a> {
    tenant: &'a TenantId,
    /// Row numbers of the collections.
    collections: Vec<i64>,
    /// Attachments that pass the filter, if there is one.
    among: Option<Vec<i64>>,
}

/// A matching chunk, by row number.
struct Hit {
    number: i64,
    score: f64,
}

impl StoreLibrary {
    pub(super) async fn find_chunks(
        &self,
        tenant: &TenantId,
        collections: &[CollectionId],
        query: &Query,
    ) -> Result<SearchResults> {
        let collections = self.to_search(tenant, collections).await?;
        let scope = self.scope(tenant, &collections, query.filter.as_ref()).await?;
        let (by_words, meaning) =
            tokio::join!(self.by_words(&scope, query), self.meaning_of(&query.text));
        let (by_words, mut words_only) = (by_words?, None);
        let mut hits = match meaning {
            None => by_words,
            Some(Ok((model, question))) => {
                let by_meaning = self.by_meaning(&scope, model, &question).await?;
                let by_words: Vec<i64> = by_words.iter().map(|hit| hit.number).collect();
                let fused = fused(&by_words, &by_meaning).into_iter();
                fused.map(|(number, score)| Hit { number, score }).collect()
            }
            Some(Err(cause)) => {
                warn!(%cause, "embeddings unavailable, full-text search only");
                words_only = Some(cause.to_string());
                by_words
            }
        };
        // Some of them may be about to be deleted.
        hits.truncate(query.most * 2);
        let mut chunks = self.shown(tenant, hits).await?;
        chunks.truncate(query.most);
        Ok(SearchResults { chunks, words_only })
    }

    /// Returns the model and the vector of a query, or `None` if there is no model.
    async fn meaning_of(&self, text: &str) -> Option<Result<(&str, Vec<f32>), EmbeddingError>> {
        let model = self.reader.model()?;
        let vectors = self.reader.vectors(&[text]).await;
        Some(vectors.map(|vectors| (model, vectors.into_iter().next().unwrap_or_default())))
    }

    async fn scope<'a>(
        &self,
        tenant: &'a TenantId,
        collections: &[CollectionRow],
        filter: Option<&Filter>,
    ) -> Result<Scope<'a>> {
        let collections: Vec<i64> = collections.iter().map(|kept| kept.number).collect();
        let Some(filter) = filter else {
            return Ok(Scope { tenant, collections, among: None });
        };
        let sql = format!(
            "select number, attributes from attachments
             where tenant = $1 and state = 'completed'
                 and collection in (select value from {})",
            self.database.dialect().integers("$2")
        );
        let values = values![tenant, &collections];
        let mut among = Vec::new();
        for row in &self.database.query(&sql, &values).await? {
            if filter.passes(&decode(row.text(1)?)?) {
                among.push(row.integer(0)?);
            }
        }
        Ok(Scope { tenant, collections, among: Some(among) })
    }

    async fn by_words(&self, scope: &Scope<'_>, query: &Query) -> Result<Vec<Hit>> {
        let mut words = self.reader.asked(&query.text);
        words.retain(|word| is_word(word));
        words.sort();
        words.dedup();
        if words.is_empty() || scope.is_empty() {
            return Ok(Vec::new());
        }
        let dialect = self.dialect();
        let asked = (dialect.asked)(&scope.collections, &words);
        let most = RANKED.max(query.most);
        let mut values = values![&asked, scope.tenant, most].to_vec();
        let alone: Vec<&str> = words.iter().map(String::as_str).collect();
        if !dialect.counts {
            values.extend(values![self.n_passages(scope).await?, &alone]);
        }
        let sql = match &scope.among {
            Some(among) => {
                values.push(Value::Integers(among));
                dialect.by_words_among
            }
            None => dialect.by_words,
        };
        let found = self.database.query(sql, &values).await?;
        Ok(found.iter().map(hit).collect::<Result<_, _>>()?)
    }

    async fn n_passages(&self, scope: &Scope<'_>) -> Result<i64> {
        let sql = format!(
            "select cast(coalesce(sum(n_passages), 0) as bigint) from attachments
             where tenant = $1 and collection in (select value from {})",
            self.database.dialect().integers("$2")
        );
        let values = values![scope.tenant, &scope.collections];
        let found = self.database.query(&sql, &values).await?;
        Ok(found.first().map(|row| row.integer(0)).transpose()?.unwrap_or(0))
    }

    /// Returns the chunks with the nearest vectors, nearest first.
    async fn by_meaning(
        &self,
        scope: &Scope<'_>,
        model: &str,
        question: &[f32],
    ) -> Result<Vec<i64>> {
        let mut nearest = Nearest::new(RANKED);
        if self.has_column().await? {
            let region = Region {
                tenant: scope.tenant,
                collections: &scope.collections,
                among: scope.among.as_deref(),
                model,
            };
            self.look_in_column(&region, question, &mut nearest).await?;
        }
        for Part { attachments, from, to } in self.parts(scope, model).await? {
            let sql = format!(
                "select attachment, place, n, body from passage_vectors
                 where tenant = $1 and model = $2 and place >= $4 and place < $5
                     and attachment in (select value from {})",
                self.database.dialect().integers("$3")
            );
            let values = values![scope.tenant, model, &attachments, from, to];
            for row in &self.database.query(&sql, &values).await? {
                let n = usize::try_from(row.integer(2)?).unwrap_or(0);
                nearest.look_at(question, (row.integer(0)?, row.integer(1)?), n, row.bytes(3)?);
            }
        }
        self.numbers(scope.tenant, &nearest.spots()).await
    }

    /// Splits all vectors in scope into parts of bounded size.
    async fn parts(&self, scope: &Scope<'_>, model: &str) -> Result<Vec<Part>> {
        let sql = format!(
            "select number, n_passages from attachments
             where tenant = $1 and model = $2 and state = 'completed'
                 and collection in (select value from {}) order by number",
            self.database.dialect().integers("$3")
        );
        let values = values![scope.tenant, model, &scope.collections];
        let mut parts = Parts::default();
        if !self.has_blocks(scope.tenant).await? {
            return Ok(parts.done());
        }
        for row in &self.database.query(&sql, &values).await? {
            let number = row.integer(0)?;
            if scope.among.as_ref().is_none_or(|among| among.contains(&number)) {
                parts.add(number, row.integer(1)?);
            }
        }
        Ok(parts.done())
    }

    async fn has_blocks(&self, tenant: &TenantId) -> Result<bool> {
        let sql = "select place from passage_vectors where tenant = $1 limit 1";
        let found = self.database.query(sql, &values![tenant]).await?;
        Ok(!found.is_empty())
    }

    /// Returns the row numbers of the chunks at these spots, in order.
    async fn numbers(&self, tenant: &TenantId, spots: &[ChunkPosition]) -> Result<Vec<i64>> {
        if spots.is_empty() {
            return Ok(Vec::new());
        }
        let texts = |of: fn(&ChunkPosition) -> i64| -> Vec<String> {
            spots.iter().map(|spot| of(spot).to_string()).collect()
        };
        let (attachments, places) = (texts(|spot| spot.0), texts(|spot| spot.1));
        let attachments: Vec<&str> = attachments.iter().map(String::as_str).collect();
        let places: Vec<&str> = places.iter().map(String::as_str).collect();
        let sql = format!(
            "select p.number, p.attachment, p.place from {} join passages as p
                 on p.attachment = cast(zipped.c1 as bigint)
                     and p.place = cast(zipped.c2 as bigint)
             where p.tenant = $3",
            self.database.dialect().zip(&["$1", "$2"])
        );
        let values = values![&attachments, &places, tenant];
        let found = self.database.query(&sql, &values).await?;
        let mut numbers = HashMap::new();
        for row in &found {
            numbers.insert((row.integer(1)?, row.integer(2)?), row.integer(0)?);
        }
        Ok(spots.iter().filter_map(|spot| numbers.get(spot).copied()).collect())
    }

    /// Loads the chunks, without those deleted meanwhile.
    async fn shown(&self, tenant: &TenantId, hits: Vec<Hit>) -> Result<Vec<FoundChunk>> {
        if hits.is_empty() {
            return Ok(Vec::new());
        }
        let numbers: Vec<i64> = hits.iter().map(|hit| hit.number).collect();
        let sql = format!(
            "select p.number, p.text, a.file_id, f.name, a.attributes from passages as p
             join attachments as a
                 on a.number = p.attachment and a.tenant = p.tenant and a.state = 'completed'
             join files as f on f.tenant = a.tenant and f.id = a.file_id
             where p.tenant = $1 and (f.expires_at is null or f.expires_at > $2)
                 and p.number in (select value from {})",
            self.database.dialect().integers("$3")
        );
        let values = values![tenant, now().as_micros(), &numbers];
        let found = self.database.query(&sql, &values).await?;
        let by_number = |row: &Row| Ok((row.integer(0)?, chunk(row)?));
        let mut chunks: HashMap<i64, FoundChunk> =
            found.iter().map(by_number).collect::<Result<_, DatabaseError>>()?;
        let shown =
            |Hit { number, score }: Hit| Some(FoundChunk { score, ..chunks.remove(&number)? });
        Ok(hits.into_iter().filter_map(shown).collect())
    }
}

impl Scope<'_> {
    fn is_empty(&self) -> bool {
        self.collections.is_empty() || self.among.as_ref().is_some_and(Vec::is_empty)
    }
}

/// Vectors that are compared in one query.
struct Part {
    attachments: Vec<i64>,
    /// Range of positions, end exclusive.
    from: i64,
    to: i64,
}

#[derive(Default)]
struct Parts {
    done: Vec<Part>,
    small: Vec<i64>,
    n_small: i64,
}

impl Parts {
    fn add(&mut self, attachment: i64, n_passages: i64) {
        if n_passages > AT_ONCE {
            // Blocks and parts start at multiples of the block length.
            let mut from = 0;
            while from < n_passages {
                let to = from + AT_ONCE;
                self.done.push(Part { attachments: vec![attachment], from, to });
                from = to;
            }
            return;
        }
        if self.n_small + n_passages > AT_ONCE {
            self.close();
        }
        self.small.push(attachment);
        self.n_small += n_passages;
    }

    fn close(&mut self) {
        let attachments = std::mem::take(&mut self.small);
        self.n_small = 0;
        if !attachments.is_empty() {
            self.done.push(Part { attachments, from: 0, to: AT_ONCE });
        }
    }

    fn done(mut self) -> Vec<Part> {
        self.close();
        self.done
    }
}

/// Maps a score in billionths to a score between 0 and 1. The order does not change.
fn hit(row: &Row) -> Result<Hit, DatabaseError> {
    #[expect(clippy::cast_precision_loss, reason = "a score need not be exact")]
    let score = row.integer(1)?.max(1) as f64 / 1e9;
    Ok(Hit { number: row.integer(0)?, score: score / (score + 1.0) })
}

fn chunk(row: &Row) -> Result<FoundChunk, DatabaseError> {
    Ok(FoundChunk {
        text: row.text(1)?.to_owned(),
        file_id: FileId::from(row.text(2)?),
        file_name: decode(row.text(3)?)?,
        attributes: decode(row.text(4)?)?,
        score: 0.0,
    })
}
