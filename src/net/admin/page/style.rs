//! How the status page looks, as the style sheet that is written into it.
//!
//! Light or dark as the reader's system is. Three colours carry the verdict, and never alone: each
//! slot has a sign of its own shape, for those who do not tell red from green. Below 44 rem the
//! table becomes a list, for a telephone in the other hand.

/// The style sheet. It names no font file, no picture and no other address.
pub const STYLE: &str = "\
:root {
  --paper: #f6f7f9; --card: #fff; --ink: #1a1f26; --soft: #5b6673; --line: #dde2e8;
  --good: #17743a; --warn: #8f5600; --bad: #b3261e;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #12161b; --card: #1b2128; --ink: #e7ebf0; --soft: #9aa6b2; --line: #313a44;
    --good: #58c886; --warn: #f0b35b; --bad: #ff8a80;
  }
}
* { box-sizing: border-box; margin: 0; }
body {
  max-width: 72rem; margin: 0 auto; padding: 1.25rem; background: var(--paper);
  color: var(--ink); font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: break-word;
}
header { display: flex; flex-wrap: wrap; gap: 0 1rem; align-items: baseline; }
header p { margin-left: auto; color: var(--soft); font-variant-numeric: tabular-nums; }
h1 { font-size: 1.125rem; }
h2 { font-size: 1.375rem; line-height: 1.3; }
.verdict, table, dl {
  margin-top: 1rem; background: var(--card); border: 1px solid var(--line);
  border-radius: .5rem;
}
.verdict { padding: 1rem 1.25rem; border-left: .5rem solid; }
.verdict.good { border-left-color: var(--good); }
.verdict.warn { border-left-color: var(--warn); }
.verdict.bad { border-left-color: var(--bad); }
.verdict.good h2 { color: var(--good); }
.verdict.warn h2 { color: var(--warn); }
.verdict.bad h2 { color: var(--bad); }
.verdict ul { margin-top: .5rem; padding-left: 1.25rem; }
.verdict li { margin-top: .25rem; overflow-wrap: anywhere; }
.verdict p { margin-top: .5rem; color: var(--soft); overflow-wrap: anywhere; }
table { width: 100%; border-collapse: separate; border-spacing: 0; }
th, td { padding: .625rem 1.25rem; text-align: left; vertical-align: top; }
thead th { white-space: nowrap; color: var(--soft); font-size: .8125rem; font-weight: 600; }
tbody th, tbody td { border-top: 1px solid var(--line); }
tbody th { font-weight: 600; white-space: nowrap; }
tbody th::before { content: '● '; }
.good th::before { color: var(--good); }
.warn th::before { content: '▲ '; color: var(--warn); }
.bad th::before { content: '■ '; color: var(--bad); }
tr.warn td:nth-child(2) { color: var(--warn); font-weight: 600; }
tr.bad td:nth-child(2) { color: var(--bad); font-weight: 600; }
td:last-child { color: var(--soft); }
dl {
  display: grid; grid-template-columns: repeat(auto-fill, minmax(20.5rem, 1fr));
  gap: .75rem 1.5rem; padding: 1rem 1.25rem;
}
dt { color: var(--soft); font-size: .8125rem; }
dd { overflow-wrap: anywhere; }
@media (max-width: 44rem) {
  body { padding: .75rem; }
  header p { margin-left: 0; }
  thead { display: none; }
  tr, tbody th, tbody td { display: block; }
  tr + tr { border-top: 1px solid var(--line); }
  tr { padding: .625rem 1rem; }
  tbody th, tbody td { padding: 0; border: 0; white-space: normal; }
  td[data-is]::before { content: attr(data-is) ': '; color: var(--soft); }
  td:empty { display: none; }
  .verdict, dl { padding: .75rem 1rem; }
  dl { grid-template-columns: 1fr; gap: .375rem; }
  dl div { display: flex; gap: .75rem; justify-content: space-between; }
  dt { flex: none; font-size: 1rem; }
  dd { text-align: right; }
}
";
