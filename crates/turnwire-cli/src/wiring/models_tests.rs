use super::*;
use crate::settings::ModelTimeouts;
use turnwire_engine::Access;

fn provider(urls: &[&str]) -> Provider {
    let upstreams = urls.iter().map(|url| UpstreamSettings::at((*url).to_owned(), None));
    Provider {
        kind: Kind::ChatCompletions,
        upstreams: upstreams.collect(),
        timeouts: ModelTimeouts::default(),
        tool_calling: ToolCalling::default(),
        custom_tools: CustomTools::AsFunctions,
        unsupported: Vec::new(),
        price: None,
    }
}

fn served(named: &[(&str, &Provider)]) -> ServedModels {
    let named = named
        .iter()
        .map(|(name, provider)| ((*name).to_owned(), ModelSettings::Provider((*provider).clone())));
    ServedModels {
        named: named.collect(),
        others: OtherNames::Refused,
        default_name: None,
        with_tools: [].into(),
        access: [].into(),
        other_access: Access::default(),
    }
}

/// A model that did not change is the same one after a reload, whatever happened to the others.
#[test]
fn a_model_that_did_not_change_is_used_again() {
    let (one, two, three) =
        (provider(&["http://1"]), provider(&["http://2"]), provider(&["http://3"]));
    let first = BuiltModels::default().next(&served(&[("a", &one), ("b", &two)])).unwrap();
    let second = first.next(&served(&[("a", &one), ("b", &three), ("c", &one)])).unwrap();
    let same = |name: &str| Arc::ptr_eq(&first.named()[name], &second.named()[name]);
    assert!(same("a"));
    assert!(!same("b"));
    assert_eq!(second.named().len(), 3);
}

/// Of a model whose upstreams changed, those that stay keep their connections.
#[test]
fn an_upstream_that_did_not_change_is_used_again() {
    let before = BuiltPool::new(&provider(&["http://1", "http://2"]), None).unwrap();
    let mut changed = provider(&["http://3", "http://2"]);
    changed.upstreams[1].weight = 7;
    let after = BuiltPool::new(&changed, Some(&before)).unwrap();
    assert!(Arc::ptr_eq(&before.upstreams[1].1, &after.upstreams[1].1), "only its weight is new");
    assert!(!Arc::ptr_eq(&before.upstreams[0].1, &after.upstreams[0].1));
    changed.timeouts.connect = Some(Duration::from_secs(1));
    let slower = BuiltPool::new(&changed, Some(&after)).unwrap();
    assert!(!Arc::ptr_eq(&after.upstreams[1].1, &slower.upstreams[1].1), "it connects otherwise");
}
