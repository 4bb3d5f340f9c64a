//! A request cannot make this server connect to an arbitrary address (A4).

use std::{
    collections::{HashMap, HashSet},
    io,
    net::{IpAddr, Ipv4Addr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use axum::{
    Router,
    body::Body,
    http::{StatusCode, Uri, header::LOCATION},
    response::{IntoResponse, Response},
    routing::any,
};
use futures::{StreamExt, stream};
use reqwest::Url;
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

use super::{Egress, EgressError, EgressOptions, Lookup, UrlRefusal};

const CORPUS: &str = include_str!("corpus.tsv");
/// Number of DNS rebinding attempts.
const TRIES: usize = 1_000;

struct Bad {
    address: String,
    refused_as: &'static str,
    leads_to: &'static str,
    why: &'static str,
}

fn corpus() -> Vec<Bad> {
    let lines = CORPUS.lines().filter(|line| !line.starts_with('#'));
    let bad = lines.map(|line| {
        let [address, refused_as, leads_to, why] =
            line.split('\t').collect::<Vec<_>>().try_into().unwrap_or_else(|_| panic!("{line}"));
        assert!(!why.is_empty(), "{line}");
        let address = serde_json::from_str(&format!("\"{address}\"")).unwrap();
        Bad { address, refused_as, leads_to, why }
    });
    bad.collect()
}

fn kind(refusal: &UrlRefusal) -> &'static str {
    match refusal {
        UrlRefusal::NotAnAddress => "not_an_address",
        UrlRefusal::Scheme => "scheme",
        UrlRefusal::Credentials => "credentials",
        UrlRefusal::Port(_) => "port",
        UrlRefusal::OddHost => "odd_host",
        UrlRefusal::Closed(_) => "closed",
        UrlRefusal::NoSuchHost => "no_such_host",
    }
}

/// Resolves names as listed in the corpus; all other names fail.
struct Known(HashMap<String, Vec<IpAddr>>);

impl Known {
    fn of_corpus() -> Self {
        let named = corpus().into_iter().filter(|bad| !bad.leads_to.is_empty());
        let entry = |bad: Bad| {
            let host = Url::parse(&bad.address).unwrap().host_str().unwrap().to_owned();
            let addresses = bad.leads_to.split(',').filter_map(|address| address.parse().ok());
            (host, addresses.collect())
        };
        Self(named.map(entry).collect())
    }
}

#[async_trait]
impl Lookup for Known {
    async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        Ok(self.0.get(name).cloned().unwrap_or_default())
    }
}

/// Options with short timeouts.
fn quick() -> EgressOptions {
    EgressOptions {
        timeout: Duration::from_secs(5),
        connect_timeout: Duration::from_secs(1),
        ..EgressOptions::default()
    }
}

/// Options in which the operator allows only `address` and its port.
fn opened(address: Ipv4Addr, port: u16) -> EgressOptions {
    let open_networks = vec![IpAddr::V4(address).into()];
    EgressOptions { open_networks, ports: vec![80, 443, port], ..quick() }
}

/// A server that counts its requests.
struct Place {
    port: u16,
    visits: Arc<AtomicUsize>,
}

impl Place {
    async fn at(address: Ipv4Addr, port: u16, answer: impl Answer) -> Self {
        let visits = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&visits);
        let handler = move |uri: Uri| {
            seen.fetch_add(1, Ordering::SeqCst);
            std::future::ready(answer(uri))
        };
        let listener = TcpListener::bind((address, port)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let router = Router::new().fallback(any(handler));
        TaskTracker::new().spawn(async move { axum::serve(listener, router).await });
        Self { port, visits }
    }

    fn n_visits(&self) -> usize {
        self.visits.load(Ordering::SeqCst)
    }
}

trait Answer: Fn(Uri) -> Response + Clone + Send + Sync + 'static {}
impl<F: Fn(Uri) -> Response + Clone + Send + Sync + 'static> Answer for F {}

const OPEN: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const CLOSED: Ipv4Addr = Ipv4Addr::LOCALHOST;

fn moved(target: &str) -> Response {
    (StatusCode::FOUND, [(LOCATION, target.to_owned())]).into_response()
}

/// A4: each of the three hundred URLs of the corpus is refused with the expected reason.
#[tokio::test]
async fn three_hundred_addresses_are_refused() {
    let egress = Egress::with_lookup(&quick(), Arc::new(Known::of_corpus())).unwrap();
    let corpus = corpus();
    let distinct: HashSet<&str> = corpus.iter().map(|bad| bad.address.as_str()).collect();
    assert_eq!(distinct.len(), 300);
    for bad in corpus {
        let refused = egress.get(&bad.address, "*/*").await;
        let Err(EgressError::Refused(refusal)) = &refused else {
            panic!("{:?} ({}): {refused:?}", bad.address, bad.why);
        };
        assert_eq!(kind(refusal), bad.refused_as, "{:?} ({})", bad.address, bad.why);
    }
}

/// A4: a redirect from an allowed page to one of these URLs is not followed.
#[tokio::test]
async fn no_redirect_leads_to_any_of_them() {
    let corpus = corpus();
    let targets: Vec<String> = corpus.iter().map(|bad| bad.address.clone()).collect();
    // Skips targets that are invalid in a header, and relative ones, which stay on the same host.
    let base = Url::parse(&format!("http://{OPEN}/")).unwrap();
    let can_be_sent = |target: &String| {
        let leads_elsewhere = base.join(target).is_ok_and(|url| url.host() != base.host());
        leads_elsewhere && axum::http::HeaderValue::from_str(target).is_ok()
    };
    let to_send: Vec<(usize, String)> =
        targets.into_iter().enumerate().filter(|(_, target)| can_be_sent(target)).collect();
    assert!(to_send.len() > 230, "{}", to_send.len());
    let by_place: HashMap<String, String> =
        to_send.iter().map(|(n, target)| (format!("/{n}"), target.clone())).collect();
    let open = Place::at(OPEN, 0, move |uri: Uri| {
        by_place.get(uri.path()).map_or_else(|| "here".into_response(), |target| moved(target))
    })
    .await;
    let canary = Place::at(CLOSED, open.port, |_: Uri| "secret".into_response()).await;
    let options = opened(OPEN, open.port);
    let egress = Egress::with_lookup(&options, Arc::new(Known::of_corpus())).unwrap();
    for (n, target) in &to_send {
        let address = format!("http://{OPEN}:{}/{n}", open.port);
        let refused = egress.get(&address, "*/*").await;
        assert!(matches!(refused, Err(EgressError::Refused(_))), "{target}: {refused:?}");
    }
    let target = format!("http://{CLOSED}:{}/", open.port);
    let pointing = Place::at(OPEN, 0, move |_: Uri| moved(&target)).await;
    let mut options = opened(OPEN, open.port);
    options.ports.push(pointing.port);
    let egress = Egress::new(&options).unwrap();
    let refused = egress.get(&format!("http://{OPEN}:{}/", pointing.port), "*/*").await;
    assert_eq!(refused, Err(EgressError::Refused(UrlRefusal::Closed("loopback"))));
    assert_eq!((pointing.n_visits(), canary.n_visits()), (1, 0));
}

/// Resolves to an allowed and a denied address in turn, in the order of `answers`.
struct Rebinding {
    answers: Vec<Vec<IpAddr>>,
    asked: AtomicUsize,
}

#[async_trait]
impl Lookup for Rebinding {
    async fn addresses(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        let n = self.asked.fetch_add(1, Ordering::SeqCst);
        Ok(self.answers[n % self.answers.len()].clone())
    }
}

/// A4: a name that resolves to another address each time, a thousand times. The allowed address is
/// reached when the check resolved to it; the denied one is never reached.
#[tokio::test]
async fn a_name_that_changes_its_mind_never_leads_inside() {
    let (open, closed) = (IpAddr::V4(OPEN), IpAddr::V4(CLOSED));
    let orders: [Vec<Vec<IpAddr>>; 4] = [
        vec![vec![open], vec![closed]],
        vec![vec![open], vec![open], vec![closed]],
        vec![vec![open, closed], vec![open]],
        vec![vec![closed, open], vec![open], vec![open, closed]],
    ];
    let here = Place::at(OPEN, 0, |_: Uri| "open".into_response()).await;
    let canary = Place::at(CLOSED, here.port, |_: Uri| "secret".into_response()).await;
    let (mut n_reached, mut n_refused) = (0, 0);
    for answers in orders {
        let lookup = Arc::new(Rebinding { answers, asked: AtomicUsize::new(0) });
        let egress = Egress::with_lookup(&opened(OPEN, here.port), lookup).unwrap();
        let address = format!("http://flips.example:{}/", here.port);
        let tries = stream::iter(0..TRIES / 4).map(|_| egress.get(&address, "*/*"));
        let ends: Vec<_> = tries.buffer_unordered(16).collect().await;
        for end in ends {
            match end {
                Ok(fetched) => {
                    assert_eq!(fetched.body, b"open");
                    n_reached += 1;
                }
                Err(EgressError::Refused(UrlRefusal::Closed("loopback"))) => n_refused += 1,
                Err(other) => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(n_reached + n_refused, TRIES);
    assert!(n_reached > 400 && n_refused > 400, "{n_reached} reached, {n_refused} refused");
    assert_eq!(here.n_visits(), n_reached);
    assert_eq!(canary.n_visits(), 0, "the closed place was reached");
}

/// A4: a name that resolves to a public address first, and to this machine after a redirect, is
/// refused.
#[tokio::test]
async fn a_name_that_turns_inside_after_a_redirect_is_refused() {
    let answers = vec![vec![IpAddr::V4(OPEN)], vec![IpAddr::V4(CLOSED)]];
    let here = Place::at(OPEN, 0, |uri: Uri| match uri.path() {
        "/" => moved("/secret"),
        _ => "open".into_response(),
    })
    .await;
    let canary = Place::at(CLOSED, here.port, |_: Uri| "secret".into_response()).await;
    let lookup = Arc::new(Rebinding { answers, asked: AtomicUsize::new(0) });
    let egress = Egress::with_lookup(&opened(OPEN, here.port), lookup).unwrap();
    let refused = egress.get(&format!("http://flips.example:{}/", here.port), "*/*").await;
    assert_eq!(refused, Err(EgressError::Refused(UrlRefusal::Closed("loopback"))));
    assert_eq!((here.n_visits(), canary.n_visits()), (1, 0));
}

#[tokio::test]
async fn what_is_open_is_read_with_its_redirects() {
    let here = Place::at(OPEN, 0, |uri: Uri| match uri.path() {
        "/a" => moved("/b?x=1"),
        "/b" => moved("c"),
        "/c" => ([("content-type", "text/plain")], "found").into_response(),
        _ => moved(uri.path()),
    })
    .await;
    let egress = Egress::new(&opened(OPEN, here.port)).unwrap();
    let base = format!("http://{OPEN}:{}", here.port);
    let fetched = egress.get(&format!("{base}/a"), "text/plain").await.unwrap();
    assert_eq!(fetched.url.as_str(), format!("{base}/c"));
    assert_eq!((fetched.status, fetched.body.as_slice()), (200, b"found".as_slice()));
    assert_eq!(fetched.content_type.as_deref(), Some("text/plain"));
    let around = egress.get(&format!("{base}/loop"), "*/*").await;
    assert_eq!(around, Err(EgressError::TooManyRedirects));
}

/// A13: the size and the duration of a response are limited.
#[tokio::test]
async fn an_answer_without_end_is_given_up() {
    let here = Place::at(OPEN, 0, |uri: Uri| match uri.path() {
        "/long" => {
            let more = stream::repeat_with(|| Ok::<_, io::Error>(vec![b'x'; 64 * 1024]));
            Response::new(Body::from_stream(more))
        }
        _ => Response::new(Body::from_stream(stream::pending::<io::Result<Vec<u8>>>())),
    })
    .await;
    let options = EgressOptions { timeout: Duration::from_millis(300), ..opened(OPEN, here.port) };
    let egress = Egress::new(&options).unwrap();
    let base = format!("http://{OPEN}:{}", here.port);
    assert_eq!(egress.get(&format!("{base}/silent"), "*/*").await, Err(EgressError::TooSlow));
    let options = EgressOptions { timeout: Duration::from_secs(20), ..options };
    let egress = Egress::new(&options).unwrap();
    assert_eq!(egress.get(&format!("{base}/long"), "*/*").await, Err(EgressError::TooLong));
}

/// Only the listed networks are allowed. An IPv6 address that embeds an IPv4 address of another
/// network stays denied.
#[tokio::test]
async fn the_operator_opens_networks_and_ports() {
    let with = |networks: &[&str], ports: &[u16]| {
        let open_networks = networks.iter().map(|network| network.parse().unwrap()).collect();
        Egress::new(&EgressOptions { open_networks, ports: ports.to_vec(), ..quick() }).unwrap()
    };
    let closed = with(&[], &[80, 443]);
    assert_eq!(closed.check("http://10.1.2.3/"), Err(UrlRefusal::Closed("private")));
    assert!(closed.check("https://8.8.8.8/").is_ok());
    assert!(closed.check("https://[2606:4700::1]/").is_ok());
    let open = with(&["10.0.0.0/8"], &[443, 8443]);
    assert!(open.check("https://10.1.2.3:8443/").is_ok());
    assert_eq!(open.check("http://10.1.2.3/"), Err(UrlRefusal::Port(80)));
    assert_eq!(open.check("https://192.168.0.1/"), Err(UrlRefusal::Closed("private")));
    let translated = with(&["64:ff9b::/96"], &[80, 443]);
    assert!(translated.check("http://[64:ff9b::8.8.8.8]/").is_ok());
    let loopback = translated.check("http://[64:ff9b::127.0.0.1]/");
    assert_eq!(loopback, Err(UrlRefusal::Closed("loopback")));
}

/// The error for the model does not contain the address of a name.
#[test]
fn refusals_do_not_tell_addresses() {
    let refusal = UrlRefusal::Closed("private");
    assert_eq!(refusal.to_string(), "that host is not on the public internet (private)");
}
