import { VisuallyHidden } from '@mantine/core';
import { useMemo, useRef, useState, type ReactNode, type RefObject, useEffect } from 'react';
import { saveFile, toCsv, KeysDialog } from '../../ui/index.ts';
import { collapsedLines, linesOf, type LogLine, type LogRow, countLevels } from './log-row.ts';
import { jsonLinesOf, tableOf, xmlOf } from './entry-text.ts';
import type { LogSearch } from './log-search.ts';
import { LOCAL_ZONE } from './log-time.ts';
import { EntryPanel, type EntryAbilities } from './entry-panel.tsx';
import { HistogramChart } from './histogram-chart.tsx';
import { LogRows, type LogRowsControl } from './log-rows.tsx';
import styles from './log-viewer.module.css';
import { type Preferences, ViewerToolbar, type TailControl } from './viewer-toolbar.tsx';
import { countsText } from './histogram.ts';

interface Props {
  /** The loaded entries that meet the conditions, newest first. */
  rows: readonly LogRow[];
  search: LogSearch;
  onSearch: (change: Partial<LogSearch>, isStep?: boolean) => void;
  preferences: Preferences;
  onPreferences: (change: Partial<Preferences>) => void;
  filterField: RefObject<HTMLInputElement | null>;
  /** The time zone of the device, if it is known. */
  deviceZone: string | undefined;
  deviceName: (deviceId: string) => string;
  showsDevice?: boolean;
  tail?: TailControl | undefined;
  abilities: EntryAbilities;
  /** The entry of the address, if it is not among the rows. */
  linked?: LogRow | undefined;
  fileName: string;
  label: string;
  /** Between the histogram and the rows: how the reading goes. */
  notices: ReactNode;
  /** In place of rows, if there are none. */
  empty: ReactNode;
  /** Below the rows. */
  footer: ReactNode;
  onPanel?: (isOpen: boolean) => void;
}

const PAGE_ROWS = 15;

export const zoneOf = ({ zone }: Preferences, deviceZone: string | undefined): string => {
  if (zone === 'utc') return 'UTC';
  return zone === 'device' && deviceZone !== undefined ? deviceZone : LOCAL_ZONE;
};

/** Entries of a log, wherever they come from: over time, as a list, and one in detail. */
export function LogViewer(props: Props) {
  const { rows, search, onSearch, preferences, onPreferences, filterField, deviceZone, deviceName } = props;
  const { tail, linked, abilities, showsDevice = false } = props;
  const { wrap, collapse, order } = preferences;
  const zone = zoneOf(preferences, deviceZone);
  const [find, setFind] = useState('');
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set());
  const [activeKey, setActiveKey] = useState<string>();
  const [entry, setEntry] = useState<LogRow>();
  const [showsKeys, setShowsKeys] = useState(false);
  const [isExportOpen, setExportOpen] = useState(false);
  const findField = useRef<HTMLInputElement>(null);
  const list = useRef<LogRowsControl>(null);

  const lines = useMemo(() => {
    const inOrder = order === 'newest' ? rows : [...rows].reverse();
    return collapse ? collapsedLines(inOrder, opened) : linesOf(inOrder);
  }, [rows, order, collapse, opened]);
  const words = useMemo(
    () => [find.trim(), search.text ?? ''].filter((word) => word !== ''),
    [find, search.text],
  );
  const found = useMemo(() => matchesOf(lines, find), [lines, find]);
  const shownEntry = entry ?? linked;
  const active = lines.findIndex(({ row }) => row.key === (activeKey ?? shownEntry?.key));

  const open = (row: LogRow | undefined) => {
    setEntry(row);
    props.onPanel?.(row !== undefined);
    onSearch({ record: row?.recordId });
    // Hold new rows back while an entry is open, so that it does not move.
    if (row !== undefined) tail?.pause();
  };
  const activate = (place: number, isOpened: boolean) => {
    const line = lines[Math.max(0, Math.min(lines.length - 1, place))];
    if (line === undefined) return;
    setActiveKey(line.row.key);
    if (isOpened) open(line.row);
  };
  const step = (by: number) => activate(active + by, shownEntry !== undefined);
  const toggleRepeats = ({ row, count }: LogLine) => {
    if (count < 2) return;
    const next = new Set(opened);
    if (!next.delete(row.key)) next.add(row.key);
    setOpened(next);
  };
  const toggleTail = () => {
    if (tail === undefined) return;
    if (tail.state.state === 'off') tail.follow();
    else if (tail.state.state === 'paused') tail.resume();
    else tail.pause();
  };
  const acts: Record<ViewerKey, () => void> = {
    find: () => findField.current?.focus(),
    filter: () => filterField.current?.focus(),
    next: () => step(1),
    previous: () => step(-1),
    first: () => activate(0, shownEntry !== undefined),
    last: () => activate(lines.length - 1, shownEntry !== undefined),
    pageDown: () => step(PAGE_ROWS),
    pageUp: () => step(-PAGE_ROWS),
    open: () => activate(active, true),
    repeats: () => {
      const line = lines[active];
      if (line !== undefined) toggleRepeats(line);
    },
    close: () => {
      open(undefined);
      list.current?.focus();
    },
    tail: toggleTail,
    export: () => setExportOpen(rows.length > 0),
    help: () => setShowsKeys(true),
  };
  useViewerKeys((key) => acts[key]());

  const findNext = () => {
    const next = found.find((place) => place > active) ?? found[0];
    if (next !== undefined) activate(next, shownEntry !== undefined);
  };
  const exportAs = (form: 'csv' | 'jsonl' | 'xml') => {
    const { make, type } = FORMS[form];
    const inOrder = order === 'newest' ? rows : [...rows].reverse();
    saveFile(`${props.fileName}.${form}`, make(inOrder, deviceName), type);
  };

  return (
    <div className={styles['viewer']}>
      <HistogramChart
        rows={rows}
        zone={zone}
        onZoom={(from, to) =>
          onSearch(
            { range: undefined, from: new Date(from).toISOString(), to: new Date(to).toISOString() },
            true,
          )
        }
      />
      <ViewerToolbar
        find={find}
        onFind={setFind}
        onFindNext={findNext}
        findCount={found.length}
        findField={findField}
        tail={tail}
        preferences={preferences}
        onPreferences={onPreferences}
        deviceZone={deviceZone}
        exportable={rows.length}
        onExport={exportAs}
        isExportOpen={isExportOpen}
        onExportOpen={setExportOpen}
        onHelp={() => setShowsKeys(true)}
      />
      {props.notices}
      <div className={styles['content']}>
        {rows.length === 0 ? (
          <div style={{ flex: 1, overflow: 'auto' }}>{props.empty}</div>
        ) : (
          <LogRows
            lines={lines}
            label={props.label}
            zone={zone}
            wrap={wrap}
            words={words}
            activeKey={activeKey ?? shownEntry?.key}
            onActivate={(line) => {
              setActiveKey(line.row.key);
              open(line.row);
              list.current?.focus();
            }}
            onToggleRepeats={toggleRepeats}
            edge={order === 'newest' ? 'top' : 'bottom'}
            isFollowing={tail?.state.state === 'following'}
            onLeaveEdge={() => tail?.pause()}
            deviceName={showsDevice ? deviceName : undefined}
            control={list}
          />
        )}
        {shownEntry !== undefined && (
          <EntryPanel
            row={shownEntry}
            zone={zone}
            deviceZone={deviceZone}
            deviceName={deviceName}
            showsDevice={showsDevice}
            words={words}
            search={search}
            onFilter={(change) => onSearch(change, true)}
            onStep={step}
            onOpen={open}
            onClose={acts.close}
            {...abilities}
          />
        )}
      </div>
      {props.footer}
      {tail !== undefined && tail.state.state !== 'off' && preferences.announce && (
        <Announcer rows={rows} waiting={tail.state.waiting} />
      )}
      <KeysHelp opened={showsKeys} onClose={() => setShowsKeys(false)} />
    </div>
  );
}

const csvOf = (rows: readonly LogRow[], nameOf: (deviceId: string) => string): string =>
  toCsv(tableOf(rows, nameOf));

const FORMS = {
  csv: { make: csvOf, type: 'text/csv;charset=utf-8' },
  jsonl: { make: jsonLinesOf, type: 'application/x-ndjson' },
  xml: { make: xmlOf, type: 'application/xml' },
} as const;

/** The places of the lines that contain a text. */
function matchesOf(lines: readonly LogLine[], find: string): number[] {
  const part = find.trim().toLowerCase();
  if (part === '') return [];
  return lines.flatMap(({ row }, place) =>
    row.message.toLowerCase().includes(part) || row.source.toLowerCase().includes(part) ? [place] : [],
  );
}

type ViewerKey =
  | 'find'
  | 'filter'
  | 'next'
  | 'previous'
  | 'first'
  | 'last'
  | 'pageDown'
  | 'pageUp'
  | 'open'
  | 'repeats'
  | 'close'
  | 'tail'
  | 'export'
  | 'help';

/** Wherever the focus is, except in a field. */
const ANYWHERE: Record<string, ViewerKey> = {
  '/': 'find',
  f: 'filter',
  j: 'next',
  k: 'previous',
  t: 'tail',
  e: 'export',
  '?': 'help',
  Escape: 'close',
};
/** In the list, in the panel of the entry, and when nothing has the focus. */
const IN_LIST: Record<string, ViewerKey> = {
  ArrowDown: 'next',
  ArrowUp: 'previous',
  Home: 'first',
  End: 'last',
  PageDown: 'pageDown',
  PageUp: 'pageUp',
  Enter: 'open',
  ' ': 'repeats',
};
const ARROWS: readonly string[] = ['ArrowDown', 'ArrowUp'];

/** The keys of the viewer, which hold on the whole page, as staff on the phone have one hand free. */
function useViewerKeys(act: (key: ViewerKey) => void): void {
  const latest = useRef(act);
  useEffect(() => {
    latest.current = act;
  });
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      const key = keyOf(event);
      if (key === undefined) return;
      event.preventDefault();
      // "?" would also open the general list of keys.
      event.stopPropagation();
      latest.current(key);
    };
    window.addEventListener('keydown', onKeyDown, { capture: true });
    return () => window.removeEventListener('keydown', onKeyDown, { capture: true });
  }, []);
}

function keyOf(event: KeyboardEvent): ViewerKey | undefined {
  const { target, key } = event;
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return undefined;
  if (!(target instanceof HTMLElement)) return undefined;
  if (target.closest('[role="dialog"],[role="menu"],[role="listbox"]') !== null) return undefined;
  if (target.isContentEditable || /^(?:INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) return undefined;
  const isOpenMenu = document.querySelector('[role="menu"]:not([hidden])') !== null;
  if (isOpenMenu) return undefined;
  const isChart = target.closest('[role="slider"]') !== null;
  const anywhere = ANYWHERE[key];
  if (anywhere !== undefined) return key === 'Escape' && isChart ? undefined : anywhere;
  const isList = target.closest('[data-log-rows]') !== null;
  const isPanel = target.closest('[data-entry-panel]') !== null;
  const isNowhere = target === document.body || target.matches('main, h1');
  if (isList || isNowhere) return IN_LIST[key];
  // In the panel, Enter and Space belong to its buttons, and the other keys scroll.
  return isPanel && ARROWS.includes(key) ? IN_LIST[key] : undefined;
}

const KEYS: [string[], string][] = [
  [['/'], 'Find in the loaded entries'],
  [['f'], 'Filter: go to the text that entries must contain'],
  [['j', 'k'], 'Next and previous entry; the arrows do the same'],
  [['Enter'], 'Open the entry'],
  [['Space'], 'Show or hide the repeats of the entry'],
  [['Esc'], 'Close the entry'],
  [['t'], 'Follow new entries; pause and continue'],
  [['e'], 'Export what is shown'],
  [['?'], 'Show this list'],
  [['Ctrl', 'K'], 'Search devices, pages and actions'],
];

const KeysHelp = (props: { opened: boolean; onClose: () => void }) => (
  <KeysDialog title="Keys of the event log" keys={KEYS} {...props} />
);

const EVERY_MS = 10_000;

/** Announces to readers of screens how many entries have come, at most every ten seconds, never the entries themselves. */
function Announcer({ rows, waiting }: { rows: readonly LogRow[]; waiting: number }) {
  const latest = useRef({ rows, waiting });
  useEffect(() => {
    latest.current = { rows, waiting };
  });
  const [text, setText] = useState('Following new entries.');
  useEffect(() => {
    let known = new Set(latest.current.rows.map(({ key }) => key));
    const timer = setInterval(() => {
      const { rows: now, waiting: held } = latest.current;
      const fresh = now.filter(({ key }) => !known.has(key));
      known = new Set(now.map(({ key }) => key));
      if (held > 0) setText(`Paused, ${held} new entries are waiting.`);
      else if (fresh.length > 0) setText(`${fresh.length} new entries: ${countsText(countLevels(fresh))}.`);
    }, EVERY_MS);
    return () => clearInterval(timer);
  }, []);
  return (
    <VisuallyHidden role="log" aria-label="New entries">
      {text}
    </VisuallyHidden>
  );
}
