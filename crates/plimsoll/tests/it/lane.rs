//! The purse of a lane, compared with an independent bill: random sessions run twice, through a lane and without it.
//!
//! The ordinary tests run a few hundred sessions; `just never-dearer` runs 100,000.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll::lane::{
    BlockKind, CacheKind, ClearedBlock, InFlight, Lane, LaneBlock, LaneChoice, LanePrices, LaneRequest,
    LaneRules, Room,
};
use plimsoll::{Millis, Policy, Tokens, Usage};
use plimsoll_testkit::{BilledBlock, Biller, BillingRule};

const MINUTE: u64 = 60_000;
const FIVE_MINUTES: u64 = 5 * MINUTE;
const HOUR: u64 = 60 * MINUTE;

/// Prices of a model like Claude Sonnet, in dollars per million tokens.
const ANTHROPIC: LanePrices = LanePrices {
    input: 3.0,
    cache_read: 0.3,
    cache_write: 3.75,
    cache_write_hour: 6.0,
    output: 15.0,
    long_prompt: None,
};

/// Prices of a model like GPT-5.
const OPENAI: LanePrices = LanePrices {
    input: 1.25,
    cache_read: 0.125,
    cache_write: 1.25,
    cache_write_hour: 1.25,
    output: 10.0,
    long_prompt: None,
};

/// A fault of the lane's assumptions, which the invariant must notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutation {
    None,
    /// The cache lives four times as long as the lane assumes.
    LongerCache,
    /// Cache reads cost half, writes twice of what the lane assumes.
    WrongPrice,
    /// Changed requests lose the breakpoint in front of the change, and the client's last one.
    MissingBreakpoints,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Provider {
    FiveMinutes,
    Hour,
    OpenAi,
}

impl Provider {
    fn kind(self) -> CacheKind {
        match self {
            Provider::OpenAi => CacheKind::Prefixes { min_tokens: 1_024, lifetime: Millis(HOUR) },
            _ => CacheKind::Breakpoints { look_back: 20, most: 4, min_tokens: 1_024 },
        }
    }

    fn prices(self) -> LanePrices {
        if self == Provider::OpenAi { OPENAI } else { ANTHROPIC }
    }

    fn rule(self) -> BillingRule {
        if self == Provider::OpenAi { BillingRule::OpenAi } else { BillingRule::Anthropic }
    }

    /// Lifetime that the client's breakpoints ask for.
    fn lifetime(self) -> Option<u64> {
        match self {
            Provider::FiveMinutes => Some(FIVE_MINUTES),
            Provider::Hour => Some(HOUR),
            Provider::OpenAi => None,
        }
    }
}

/// Pseudorandom numbers.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end.max(1)
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// A block of the client's conversation.
#[derive(Clone, Copy, Debug)]
struct Item {
    content: u64,
    /// Exact tokens.
    tokens: u64,
    kind: ItemKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ItemKind {
    Fixed,
    Prompt,
    Result,
    Recall,
}

/// Tokens of a placeholder.
const PLACEHOLDER: u64 = 45;

/// A conversation of the client.
struct Talk {
    items: Vec<Item>,
    model: usize,
    /// A lane for each model that the conversation was sent to.
    lanes: BTreeMap<usize, TalkLane>,
    /// The request that was sent last, for retries.
    last: Option<(LaneRequest, LaneChoice)>,
}

/// A conversation with one model.
#[derive(Clone, Default)]
struct TalkLane {
    lane: Lane,
    /// Contents that are cleared here. A mark that another lane has set is not applied by itself: it would break the cache
    /// of this one, which has not paid for it.
    marks: BTreeSet<u64>,
}

impl Talk {
    fn lane(&self) -> &TalkLane {
        &self.lanes[&self.model]
    }

    fn lane_mut(&mut self) -> &mut TalkLane {
        self.lanes.get_mut(&self.model).unwrap()
    }

    /// Selects a model. A new lane begins with the marks of the one before.
    fn choose_model(&mut self, model: usize) {
        let marks = self.lane().marks.clone();
        self.lanes.entry(model).or_insert_with(|| TalkLane { lane: Lane::default(), marks });
        self.model = model;
    }
}

/// The caches of one model in both worlds.
struct World {
    room: Room,
    with: Biller,
    without: Biller,
}

struct Session {
    provider: Provider,
    mutation: Mutation,
    dice: Dice,
    now: u64,
    next: u64,
    worlds: Vec<World>,
    talks: Vec<Talk>,
    /// Exact tokens per 1,000 estimated ones.
    scale: u64,
    with: f64,
    without: f64,
    /// Cost of recalls so far.
    recalled: f64,
    largest_recall: f64,
    changed: u64,
    requests: u64,
}

impl Session {
    fn new(seed: u64, provider: Provider, mutation: Mutation) -> Session {
        let mut dice = Dice(seed.wrapping_mul(2_654_435_761).wrapping_add(99));
        dice.below(2);
        let world = || World {
            room: Room::new(provider.kind(), provider.prices(), Millis(0)),
            with: Biller::new(provider.rule()),
            without: Biller::new(provider.rule()),
        };
        let mut session = Session {
            provider,
            mutation,
            // The provider's cache is empty, and the lanes may know it.
            now: 10 * HOUR,
            next: 1,
            worlds: vec![world(), world()],
            talks: Vec::new(),
            scale: 600 + dice.below(1_400),
            with: 0.0,
            without: 0.0,
            recalled: 0.0,
            largest_recall: 0.0,
            changed: 0,
            requests: 0,
            dice,
        };
        let mut items = vec![];
        for _ in 0..2 {
            let tokens = 2_000 + session.dice.below(15_000);
            items.push(session.item(tokens, ItemKind::Fixed));
        }
        let lanes = BTreeMap::from([(0, TalkLane::default())]);
        session.talks.push(Talk { items, model: 0, lanes, last: None });
        session
    }

    fn item(&mut self, tokens: u64, kind: ItemKind) -> Item {
        self.next += 1;
        Item { content: self.next, tokens, kind }
    }

    fn push(&mut self, talk: usize, tokens: u64, kind: ItemKind) {
        let item = self.item(tokens, kind);
        self.talks[talk].items.push(item);
    }

    /// Lets the user and the client act before the next request.
    fn act(&mut self) -> usize {
        self.now += match self.dice.below(20) {
            0 => 6 * MINUTE + self.dice.below(20) * MINUTE,
            1 if self.dice.chance(30) => 2 * HOUR + self.dice.below(10) * HOUR,
            _ => 1_000 + self.dice.below(60_000),
        };
        let talk = self.dice.below(self.talks.len() as u64) as usize;
        match self.dice.below(100) {
            // A sub-agent or a fork with the same beginning.
            0 | 1 if self.talks.len() < 4 => {
                let from = &self.talks[talk];
                let keep = from.items.len() - self.dice.below(from.items.len() as u64 / 2) as usize;
                let items = from.items[..keep.max(2)].to_vec();
                let model = from.model;
                let lane = TalkLane { lane: Lane::default(), marks: from.lane().marks.clone() };
                let lanes = BTreeMap::from([(model, lane)]);
                self.talks.push(Talk { items, model, lanes, last: None });
            }
            // The client compacts: a summary replaces the conversation.
            2 => {
                self.talks[talk].items.truncate(2);
                let tokens = 1_000 + self.dice.below(4_000);
                self.push(talk, tokens, ItemKind::Prompt);
            }
            // The user rewinds.
            3 => {
                let length = self.talks[talk].items.len() as u64;
                let keep = 2 + self.dice.below(length - 1);
                self.talks[talk].items.truncate(keep as usize);
            }
            4 => {
                let other = 1 - self.talks[talk].model;
                self.talks[talk].choose_model(other);
            }
            // The proxy is started again: marks are durable, everything else is gone.
            5 => {
                for world in &mut self.worlds {
                    world.room = Room::new(self.provider.kind(), self.provider.prices(), Millis(self.now));
                }
                for talk in &mut self.talks {
                    talk.lanes.values_mut().for_each(|lane| lane.lane = Lane::default());
                    talk.last = None;
                }
            }
            // The client's own change at the beginning, such as a new tool.
            6 => {
                let tokens = self.talks[talk].items[0].tokens;
                self.talks[talk].items[0] = self.item(tokens, ItemKind::Fixed);
            }
            _ => {}
        }
        if self.dice.chance(12) {
            let tokens = 20 + self.dice.below(600);
            self.push(talk, tokens, ItemKind::Prompt);
        } else {
            for _ in 0..1 + self.dice.below(3) {
                let (call, result) = (30 + self.dice.below(300), self.result());
                self.push(talk, call, ItemKind::Fixed);
                self.push(talk, result, ItemKind::Result);
            }
        }
        talk
    }

    fn result(&mut self) -> u64 {
        match self.dice.below(10) {
            0 => 8_000 + self.dice.below(20_000),
            1..=3 => 2_000 + self.dice.below(6_000),
            _ => 50 + self.dice.below(1_500),
        }
    }

    fn request(&self, talk: usize, is_recall: bool) -> LaneRequest {
        let items = &self.talks[talk].items;
        let estimate = |tokens: u64| (tokens * 1_000 / self.scale).max(1);
        let last = items.len() - 1;
        let block = |(place, item): (usize, &Item)| LaneBlock {
            hash: item.content,
            tokens: estimate(item.tokens),
            breakpoint: self.provider.lifetime().filter(|_| place < 2 || place == last).map(Millis),
            kind: match item.kind {
                ItemKind::Fixed => BlockKind::Fixed,
                ItemKind::Prompt => BlockKind::Prompt,
                ItemKind::Recall => BlockKind::Recall,
                ItemKind::Result => BlockKind::Result {
                    cleared: ClearedBlock { hash: !item.content, tokens: estimate(PLACEHOLDER) },
                    is_cleared: self.talks[talk].lane().marks.contains(&item.content),
                    is_in_use: false,
                },
            },
        };
        let blocks = items.iter().enumerate().map(block).collect();
        LaneRequest { blocks, at: Millis(self.now), is_recall }
    }

    /// Sends a request in both worlds, and checks the bills.
    fn send(&mut self, talk: usize, is_recall: bool, rules: &LaneRules) -> bool {
        let request = self.request(talk, is_recall);
        let model = self.talks[talk].model;
        let choice = self.worlds[model].room.choose(&self.talks[talk].lane().lane, &request, rules);
        self.changed += u64::from(!choice.clear.is_empty());
        for place in &choice.clear {
            let item = self.talks[talk].items[*place];
            assert_eq!(item.kind, ItemKind::Result, "only results are cleared");
            self.talks[talk].lane_mut().marks.insert(item.content);
        }
        self.talks[talk].last = Some((request.clone(), choice.clone()));
        self.exchange(talk, &request, &choice)
    }

    fn exchange(&mut self, talk: usize, request: &LaneRequest, choice: &LaneChoice) -> bool {
        let model = self.talks[talk].model;
        let is_lost = self.dice.chance(3);
        let output = 20 + self.dice.below(800);
        let now = if self.mutation == Mutation::LongerCache { self.now / 4 } else { self.now };
        let sent = self.billed(talk, request, choice);
        let own = self.own(talk, request);
        let world = &mut self.worlds[model];
        let flight: InFlight = world.room.send(&mut self.talks[talk].lane_mut().lane, request, choice);
        let usage = world.with.bill(&sent, output, now, is_lost);
        world.room.answered(&mut self.talks[talk].lane_mut().lane, &flight, &usage, Millis(self.now + 500));
        let paid = self.real_price(&usage);
        self.with += paid;
        if request.is_recall {
            self.recalled += paid;
            self.largest_recall = self.largest_recall.max(paid);
            // A provider that loses its cache loses it in both worlds, also at a request that one of them does not have.
            if is_lost {
                self.worlds[model].without.forget();
            }
        } else {
            let usage = self.worlds[model].without.bill(&own, output, now, is_lost);
            self.without += self.real_price(&usage);
        }
        self.requests += 1;
        self.with <= self.without + self.recalled + 1e-6 * self.without
    }

    /// The price that the provider takes.
    fn real_price(&self, usage: &Usage) -> f64 {
        let mut prices = self.provider.prices();
        if self.mutation == Mutation::WrongPrice {
            prices.cache_read *= 0.2;
            prices.cache_write *= 2.0;
            prices.cache_write_hour *= 2.0;
            prices.input *= 2.0;
        }
        prices.of(usage)
    }

    fn billed(&self, talk: usize, request: &LaneRequest, choice: &LaneChoice) -> Vec<BilledBlock> {
        let items = &self.talks[talk].items;
        let is_changed = items.iter().any(|item| self.talks[talk].lane().marks.contains(&item.content));
        let loses = is_changed && self.mutation == Mutation::MissingBreakpoints;
        let anchor = choice.anchor.filter(|_| !loses);
        let block = |(place, item): (usize, &Item)| {
            let is_cleared =
                item.kind == ItemKind::Result && self.talks[talk].lane().marks.contains(&item.content);
            let own = request.blocks[place].breakpoint.filter(|_| !loses || place < 2);
            let breakpoint = own.map(|lifetime| lifetime.0);
            BilledBlock {
                content: if is_cleared { !item.content } else { item.content },
                tokens: if is_cleared { PLACEHOLDER } else { item.tokens },
                breakpoint: breakpoint.or_else(|| self.provider.lifetime().filter(|_| anchor == Some(place))),
            }
        };
        items.iter().enumerate().map(block).collect()
    }

    fn own(&self, talk: usize, request: &LaneRequest) -> Vec<BilledBlock> {
        let items = &self.talks[talk].items;
        let mut blocks: Vec<BilledBlock> = Vec::new();
        for (place, item) in items.iter().enumerate() {
            let breakpoint = request.blocks[place].breakpoint.map(|lifetime| lifetime.0);
            if item.kind == ItemKind::Recall {
                let last = blocks.last_mut().unwrap();
                last.breakpoint = last.breakpoint.max(breakpoint);
                continue;
            }
            blocks.push(BilledBlock { content: item.content, tokens: item.tokens, breakpoint });
        }
        blocks
    }

    /// Runs the session. Returns the first request after which it was more expensive.
    fn run(&mut self, length: u64) -> Option<String> {
        let policy = Policy::default();
        let rules = LaneRules {
            protect_tokens: self.dice.below(20_000),
            active_turns: self.dice.below(3),
            min_tokens: 500 + self.dice.below(20_000),
            ..LaneRules::of(&policy, Tokens(200_000))
        };
        for _ in 0..length {
            let talk = self.act();
            let mut is_fine = self.send(talk, false, &rules);
            // The client repeats the same request: its connection broke.
            if self.dice.chance(2)
                && let Some((request, choice)) = self.talks[talk].last.clone()
            {
                is_fine &= self.exchange(talk, &LaneRequest { at: Millis(self.now), ..request }, &choice);
            }
            // The model recalls something that was cleared.
            let has_cleared = self.talks[talk]
                .items
                .iter()
                .any(|item| self.talks[talk].lane().marks.contains(&item.content));
            if has_cleared && self.dice.chance(2) {
                self.now += 3_000;
                self.push(talk, 60, ItemKind::Recall);
                let tokens = self.dice.below(2_000);
                self.push(talk, tokens, ItemKind::Recall);
                is_fine &= self.send(talk, true, &rules);
            }
            if !is_fine {
                return Some(format!(
                    "request {}: ${} with the proxy, ${} without, ${} of recalls",
                    self.requests, self.with, self.without, self.recalled
                ));
            }
        }
        None
    }
}

/// A test may read the environment; the ban is for the engine itself.
#[allow(clippy::disallowed_methods)]
fn sessions() -> u64 {
    std::env::var("PLIMSOLL_LANE_SESSIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(150)
}

/// Figures of many sessions.
#[derive(Debug, Default)]
struct Figures {
    requests: u64,
    changed: u64,
    with: f64,
    without: f64,
    /// Sessions that were dearer by more than one recall at their end.
    in_debt: u64,
    dearer: Vec<String>,
}

fn run_all(mutation: Mutation, sessions: u64) -> BTreeMap<String, Figures> {
    let mut found: BTreeMap<String, Figures> = BTreeMap::new();
    for seed in 0..sessions {
        let provider = [Provider::FiveMinutes, Provider::Hour, Provider::OpenAi][seed as usize % 3];
        let mut session = Session::new(seed, provider, mutation);
        let length = 5 + session.dice.below(120);
        let dearer = session.run(length);
        let figures = found.entry(format!("{provider:?}")).or_default();
        figures.requests += session.requests;
        figures.changed += session.changed;
        figures.with += session.with;
        figures.without += session.without;
        figures.in_debt += u64::from(session.with > session.without + session.largest_recall);
        figures.dearer.extend(dearer.map(|dearer| format!("seed {seed}, {provider:?}, {dearer}")));
    }
    found
}

#[test]
fn no_session_is_dearer_through_a_lane_at_any_moment() {
    let found = run_all(Mutation::None, sessions());
    for (provider, figures) in &found {
        let Figures { requests, changed, with, without, in_debt, dearer } = figures;
        println!(
            "{provider}: {requests} requests, {changed} changed, {:.1} % of the price, {in_debt} in debt, {} dearer",
            100.0 * with / without,
            dearer.len()
        );
        assert!(dearer.is_empty(), "{}: {:?}", dearer.len(), &dearer[..dearer.len().min(5)]);
        assert!(*changed > 0, "nothing was tried with {provider}");
        assert!(with < without, "nothing was saved with {provider}");
    }
}

/// A check that cannot fail proves nothing: wrong assumptions about the provider must be noticed.
#[rstest::rstest]
#[case(Mutation::LongerCache)]
#[case(Mutation::WrongPrice)]
#[case(Mutation::MissingBreakpoints)]
fn the_invariant_notices(#[case] mutation: Mutation) {
    let found = run_all(mutation, 150);
    let dearer: usize = found.values().map(|figures| figures.dearer.len()).sum();
    assert!(dearer > 0, "{mutation:?} changes nothing: {found:?}");
}
