//! Checks whether the Redis for notifications is reachable. A store also opens without it and only
//! gets slower, so an operator might not notice.

use std::time::Duration;

/// Timeout of the check.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Pings the Redis at `url`. Returns the error if it does not respond.
pub async fn reach_fanout(url: &str) -> Result<(), String> {
    let client = redis::Client::open(url).map_err(|error| error.to_string())?;
    let hello = async {
        let mut connection = client.get_multiplexed_async_connection().await?;
        redis::cmd("PING").query_async::<String>(&mut connection).await
    };
    match tokio::time::timeout(RESPONSE_TIMEOUT, hello).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("no response in time".to_owned()),
    }
}
