//! Finds out whether the Redis that carries news can be reached: a store opens without it, and
//! only gets slower, so an operator might never know.

use std::time::Duration;

/// How long it may take to answer.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Says hello to the Redis at `url`; what is wrong if it does not answer.
pub async fn reach_fanout(url: &str) -> Result<(), String> {
    let client = redis::Client::open(url).map_err(|error| error.to_string())?;
    let hello = async {
        let mut connection = client.get_multiplexed_async_connection().await?;
        redis::cmd("PING").query_async::<String>(&mut connection).await
    };
    match tokio::time::timeout(RESPONSE_TIMEOUT, hello).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("it does not answer".to_owned()),
    }
}
