//! Names and links of hostile archives: nothing reaches outside, collisions are decided once.

use seqferry_archive::tree::{DuplicatePolicy, LinkPolicy, PathError};
use seqferry_archive::write::ArchiveEntry;
use seqferry_archive::{Member, MemberKind, MemberRefusal, MemberTree, TreePolicy};

fn file(name: &str) -> Member {
    ArchiveEntry::file(name, 1).member()
}

fn link(name: &str, target: &str) -> Member {
    ArchiveEntry::symbolic_link(name, target).member()
}

fn hard(name: &str, target: &str) -> Member {
    ArchiveEntry::hard_link(name, target).member()
}

/// Refusals by ordinal, those of the end included.
fn refusals(policy: &TreePolicy, members: &[Member]) -> Vec<(u64, MemberRefusal)> {
    let mut tree = MemberTree::new(policy.clone());
    let mut found = Vec::new();
    for (at, member) in (0..).zip(members) {
        found.extend(tree.admit(at, member).err().map(|refusal| (at, refusal)));
    }
    found.extend(tree.finish());
    found.sort_unstable();
    found
}

#[test]
fn links_that_lead_out_are_refused_however_they_do_it() {
    for (members, expected) in [
        (vec![link("a", "/etc")], vec![(0, MemberRefusal::LinkAbsolute)]),
        (vec![link("a", "..")], vec![(0, MemberRefusal::LinkEscapes)]),
        (vec![link("d/a", "../../x")], vec![(0, MemberRefusal::LinkEscapes)]),
        (vec![link("d/a", "../x")], vec![]),
        (vec![link("a", "b/../..")], vec![(0, MemberRefusal::LinkEscapes)]),
        (vec![link("a", "X:1-5.bed")], vec![]),
        (vec![link("a", "")], vec![(0, MemberRefusal::LinkEmpty)]),
        // The target is inside by its text, and outside through the other link.
        (vec![link("d/e/up", "../.."), link("x", "d/e/up/..")], vec![(1, MemberRefusal::LinkEscapes)]),
        (vec![link("x", "d/e/up/.."), link("d/e/up", "../..")], vec![(0, MemberRefusal::LinkEscapes)]),
        (vec![link("a", "b"), link("b", "a")], vec![(0, MemberRefusal::LinkLoop), (1, MemberRefusal::LinkLoop)]),
        (vec![link("a", "gone/x")], vec![]),
        // Files below a link, in both orders.
        (vec![link("a", "b"), file("a/x")], vec![(1, MemberRefusal::ParentNotDirectory)]),
        (vec![file("a/x"), link("a", "b")], vec![(1, MemberRefusal::IsDirectory)]),
        (vec![link("a", "b"), file("a")], vec![(1, MemberRefusal::Duplicate)]),
    ] {
        assert_eq!(refusals(&TreePolicy::default(), &members), expected, "{members:?}");
    }
}

#[test]
fn hard_links_name_earlier_files_of_the_archive_only() {
    for (members, expected) in [
        (vec![file("a"), hard("b", "a"), hard("c", "b")], vec![]),
        (vec![hard("b", "a"), file("a")], vec![(0, MemberRefusal::HardLinkTarget)]),
        (vec![hard("a", "a")], vec![(0, MemberRefusal::HardLinkTarget)]),
        (vec![hard("b", "/etc/passwd")], vec![(0, MemberRefusal::LinkAbsolute)]),
        (vec![hard("b", "../x")], vec![(0, MemberRefusal::LinkEscapes)]),
        // `tar -c a a` writes the second one as a link to itself.
        (vec![file("a"), hard("a", "a")], vec![]),
        (vec![file("a"), hard("b", "a"), hard("b", "a"), hard("b", "b"), hard("a", "b")], vec![]),
        (vec![file("a"), file("b"), hard("b", "a")], vec![(2, MemberRefusal::Duplicate)]),
        // One to a symbolic link is that link, judged where it lies.
        (vec![link("a", "x"), hard("b", "a"), hard("a", "a"), hard("b", "a")], vec![]),
        (vec![link("d/a", "../x"), hard("b", "d/a")], vec![(1, MemberRefusal::LinkEscapes)]),
        (vec![link("b", "../x"), hard("d/a", "b")], vec![(0, MemberRefusal::LinkEscapes)]),
        (vec![file("d/x"), link("l", "d"), hard("b", "l/x")], vec![(2, MemberRefusal::HardLinkTarget)]),
        (vec![file("d/x"), hard("b", "d")], vec![(1, MemberRefusal::HardLinkTarget)]),
    ] {
        assert_eq!(refusals(&TreePolicy::default(), &members), expected, "{members:?}");
    }
}

#[test]
fn names_collide_by_the_rules_of_the_target() {
    let members = [file("Run/a"), file("run/b"), file("Run/A")];
    let policy = TreePolicy { case_insensitive: true, ..TreePolicy::default() };

    assert_eq!(refusals(&TreePolicy::default(), &members), []);
    assert_eq!(refusals(&policy, &members), [(1, MemberRefusal::CaseCollision), (2, MemberRefusal::CaseCollision)]);
}

#[test]
fn the_last_of_two_counts_where_the_policy_says_so_and_earlier_hard_links_keep_their_file() {
    let policy = TreePolicy { duplicates: DuplicatePolicy::Last, ..TreePolicy::default() };
    let mut tree = MemberTree::new(policy);
    for (at, member) in (0..).zip([file("a"), hard("b", "a"), file("a")]) {
        tree.admit(at, &member).unwrap();
    }

    let a = tree.lookup(tree.root(), b"a").unwrap();
    let b = tree.lookup(tree.root(), b"b").unwrap();

    assert_eq!(tree.node(a).member, Some(2));
    let seqferry_archive::tree::NodeKind::HardLink(target) = tree.node(b).kind else { panic!("{:?}", tree.node(b)) };
    assert_eq!(tree.node(target).member, Some(0));
}

#[test]
fn folders_list_their_children_in_order_from_any_name() {
    let mut tree = MemberTree::new(TreePolicy::default());
    for (at, name) in (0..).zip(["b/2", "a", "b/10", "b", "c"]) {
        let member = if name == "b" { ArchiveEntry::directory("b").member() } else { file(name) };
        tree.admit(at, &member).unwrap();
    }
    let names =
        |parent, after: Option<&[u8]>| tree.children(parent, after).map(|(name, _)| name.to_vec()).collect::<Vec<_>>();

    assert_eq!(names(tree.root(), None), [b"a", b"b", b"c"]);
    assert_eq!(names(tree.root(), Some(b"a")), [b"b", b"c"]);
    let folder = tree.lookup(tree.root(), b"b").unwrap();
    assert_eq!(names(folder, None), [b"10".to_vec(), b"2".to_vec()]);
    assert_eq!(tree.node(folder).member, Some(3), "the later member gives an implied folder its metadata");
    assert_eq!(tree.resolve(folder, b"../c").map(|id| tree.node(id).member), Ok(Some(4)));
    assert_eq!(tree.resolve(folder, b"../.."), Err(PathError::Outside));
    assert_eq!(tree.resolve(folder, b"x/../2"), Err(PathError::NotFound));
    assert_eq!(tree.resolve(folder, b"2/x"), Err(PathError::NotDirectory));
}

#[test]
fn policies_and_bounds_hold() {
    let exclude = TreePolicy { links: LinkPolicy::Exclude, ..TreePolicy::default() };
    assert_eq!(refusals(&exclude, &[link("a", "b")]), [(0, MemberRefusal::LinkExcluded)]);
    let all = TreePolicy { links: LinkPolicy::All, ..TreePolicy::default() };
    assert_eq!(refusals(&all, &[link("a", "/etc")]), []);
    let total = TreePolicy { total: 2, ..TreePolicy::default() };
    assert_eq!(refusals(&total, &[file("a"), file("b"), file("c")]), [(2, MemberRefusal::TotalTooLarge)]);
    // Folders that paths imply count as well.
    let nodes = TreePolicy { nodes: 5, ..TreePolicy::default() };
    assert_eq!(refusals(&nodes, &[file("a/b/c"), file("d/e/f")]), [(1, MemberRefusal::TreeTooLarge)]);
    let device = Member { kind: MemberKind::CharacterDevice, ..file("a") };
    assert_eq!(refusals(&TreePolicy::default(), &[device]), [(0, MemberRefusal::Device)]);
    let mut set_id = file("a");
    set_id.mode = 0o6755;
    assert_eq!(set_id.safe_mode(), 0o755);
}
