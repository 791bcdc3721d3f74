import { useMemo, useRef, useState, type ReactNode, type RefObject } from 'react';
import { saveFile, toCsv } from '../../../ui/index.ts';
import { collapsedLines, linesOf, type LogLine } from '../model/collapse.ts';
import { jsonLinesOf, tableOf, xmlOf } from '../model/export-rows.ts';
import type { LogRow } from '../model/log-row.ts';
import type { LogSearch } from '../model/log-search.ts';
import { LOCAL_ZONE } from '../model/log-time.ts';
import { Announcer } from './announcer.tsx';
import { EntryPanel, type EntryAbilities } from './entry-panel.tsx';
import { HistogramChart } from './histogram-chart.tsx';
import { KeysHelp } from './keys-help.tsx';
import { LogRows, type LogRowsControl } from './log-rows.tsx';
import styles from './log-viewer.module.css';
import type { Preferences } from './preferences.ts';
import { useViewerKeys, type ViewerKey } from './use-viewer-keys.ts';
import { ViewerToolbar, type TailControl } from './viewer-toolbar.tsx';

interface Props {
  /** What is loaded and meets the conditions, newest first. */
  rows: readonly LogRow[];
  search: LogSearch;
  onSearch: (change: Partial<LogSearch>, isStep?: boolean) => void;
  preferences: Preferences;
  onPreferences: (change: Partial<Preferences>) => void;
  filterField: RefObject<HTMLInputElement | null>;
  /** The time zone of the device, where it is known. */
  deviceZone: string | undefined;
  deviceName: (deviceId: string) => string;
  showsDevice?: boolean;
  tail?: TailControl | undefined;
  abilities: EntryAbilities;
  /** The entry of the address, where it is not among the rows. */
  linked?: LogRow | undefined;
  fileName: string;
  label: string;
  /** Between the histogram and the rows: how the reading goes. */
  notices: ReactNode;
  /** In place of rows, where there are none. */
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
    // Rows that move away while somebody reads one of them are of no use.
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
