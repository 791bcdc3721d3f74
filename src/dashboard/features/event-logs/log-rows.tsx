import {
  IconAlertOctagon,
  IconAlertTriangle,
  IconCircleX,
  IconInfoCircle,
  IconMessageDots,
  type Icon,
} from '@tabler/icons-react';
import { useVirtualizer } from '@tanstack/react-virtual';
import {
  useCallback,
  useEffect,
  useId,
  useLayoutEffect,
  useRef,
  type Ref,
  useImperativeHandle,
  memo,
} from 'react';
import type { LogLevel } from '../../../protocol/index.ts';
import { type LogLine, LEVEL_NAMES } from './log-row.ts';
import { timeIn } from './log-time.ts';
import styles from './log-rows.module.css';
import { markMatches } from './entry-text.ts';

const ROW_HEIGHT = 26;
/** Long messages are shown whole in the panel of the entry. */
const SHOWN_CHARACTERS = 1_000;
/** Within this distance from the newest entry, the list keeps following. */
const EDGE_PX = 48;

export interface LogRowsControl {
  focus: () => void;
}

interface Props {
  lines: readonly LogLine[];
  label: string;
  zone: string;
  wrap: boolean;
  words: readonly string[];
  activeKey: string | undefined;
  onActivate: (line: LogLine) => void;
  onToggleRepeats: (line: LogLine) => void;
  /** Where the newest entry is shown: the end at which a tail is followed. */
  edge: 'top' | 'bottom';
  isFollowing: boolean;
  onLeaveEdge: () => void;
  deviceName: ((deviceId: string) => string) | undefined;
  control: Ref<LogRowsControl>;
}

/** The entries, of which only the visible ones are drawn. The keys are those of the page around it. */
export function LogRows({
  lines,
  label,
  zone,
  wrap,
  words,
  activeKey,
  onActivate,
  onToggleRepeats,
  edge,
  isFollowing,
  onLeaveEdge,
  deviceName,
  control,
}: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const gridId = useId();
  /** The line at the top of the view, which stays there when others are added above it. */
  const anchor = useRef<{ key: string; delta: number }>(undefined);
  useImperativeHandle(control, () => ({ focus: () => frame.current?.focus() }), []);

  const virtual = useVirtualizer({
    count: lines.length,
    getScrollElement: () => frame.current,
    estimateSize: () => ROW_HEIGHT,
    overscan: 15,
    // With a new function, the place of every line is computed again, even if the list is merely scrolled.
    getItemKey: useCallback((index: number) => lines[index]?.row.key ?? index, [lines]),
  });
  const active = lines.findIndex(({ row }) => row.key === activeKey);

  useLayoutEffect(() => {
    const element = frame.current;
    if (element === null) return;
    if (isFollowing) {
      element.scrollTop = edge === 'top' ? 0 : element.scrollHeight;
      return;
    }
    const { current } = anchor;
    if (current === undefined) return;
    const place = lines.findIndex(({ row }) => row.key === current.key);
    const start = virtual.measurementsCache[place]?.start;
    if (start !== undefined) element.scrollTop = start + current.delta;
  }, [lines, isFollowing, edge, virtual]);

  useEffect(() => {
    if (active >= 0) virtual.scrollToIndex(active, { align: 'auto' });
    // New lines must not pull the view back to the active one.
    // oxlint-disable-next-line react-hooks/exhaustive-deps
  }, [activeKey, virtual]);

  useEffect(() => virtual.measure(), [wrap, virtual]);

  const onScroll = () => {
    const element = frame.current;
    if (element === null) return;
    const { scrollTop, scrollHeight, clientHeight } = element;
    const distance = edge === 'top' ? scrollTop : scrollHeight - clientHeight - scrollTop;
    if (isFollowing && distance > EDGE_PX) onLeaveEdge();
    const first = virtual.getVirtualItems().find(({ end }) => end > scrollTop);
    const line = first === undefined ? undefined : lines[first.index];
    anchor.current =
      scrollTop === 0 || first === undefined || line === undefined
        ? undefined
        : { key: line.row.key, delta: scrollTop - first.start };
  };

  const isDrawn = virtual.getVirtualItems().some(({ index }) => index === active);
  return (
    <div
      ref={frame}
      className={[
        styles['frame'],
        wrap ? styles['wrap'] : '',
        deviceName === undefined ? '' : styles['withDevice'],
      ].join(' ')}
      role="grid"
      aria-label={label}
      aria-rowcount={lines.length + 1}
      aria-readonly
      tabIndex={0}
      data-log-rows
      {...(isDrawn ? { 'aria-activedescendant': `${gridId}-${active}` } : {})}
      onScroll={onScroll}
    >
      <div className={styles['header']} role="row" aria-rowindex={1}>
        <Cell role="columnheader">Time</Cell>
        {deviceName !== undefined && <Cell role="columnheader">Device</Cell>}
        <Cell role="columnheader">Level</Cell>
        <Cell role="columnheader" isOptional>
          Source
        </Cell>
        <Cell role="columnheader" isOptional>
          Event ID
        </Cell>
        <Cell role="columnheader">Message</Cell>
      </div>
      <div className={styles['rows']} role="presentation" style={{ height: virtual.getTotalSize() }}>
        {virtual.getVirtualItems().map(({ index, start, key }) => {
          const line = lines[index];
          if (line === undefined) return null;
          const { row, count, isRepeat } = line;
          return (
            // The keys of a row are those of the whole list, which has the focus.
            // oxlint-disable-next-line jsx-a11y/click-events-have-key-events
            <div
              key={key}
              id={`${gridId}-${index}`}
              ref={wrap ? virtual.measureElement : undefined}
              data-index={index}
              data-level={row.level}
              {...(isRepeat ? { 'data-repeat': true } : {})}
              className={styles['row']}
              role="row"
              aria-rowindex={index + 2}
              aria-selected={index === active}
              style={{ transform: `translateY(${start}px)`, ...(wrap ? {} : { height: ROW_HEIGHT }) }}
              onClick={() => onActivate(line)}
            >
              <Cell>{timeIn(zone, row.at)}</Cell>
              {deviceName !== undefined && <Cell>{deviceName(row.deviceId)}</Cell>}
              <Cell>
                <Severity level={row.level} />
              </Cell>
              <Cell isOptional>
                <Marked text={row.source} words={words} />
              </Cell>
              <Cell isOptional>{row.eventId}</Cell>
              <Cell className={styles['message']}>
                {count > 1 && (
                  <button
                    type="button"
                    tabIndex={-1}
                    className={styles['repeats']}
                    aria-label={`${count} times. Show or hide each of them`}
                    onClick={(event) => {
                      event.stopPropagation();
                      onToggleRepeats(line);
                    }}
                  >
                    ×{count.toLocaleString()}
                  </button>
                )}
                <Marked text={row.message.slice(0, SHOWN_CHARACTERS)} words={words} />
                {row.message.length > SHOWN_CHARACTERS && '…'}
              </Cell>
            </div>
          );
        })}
      </div>
    </div>
  );
}

function Cell({
  role = 'gridcell',
  isOptional = false,
  className,
  children,
}: {
  role?: 'gridcell' | 'columnheader';
  /** Left out if there is no room. */
  isOptional?: boolean;
  className?: string | undefined;
  children: React.ReactNode;
}) {
  return (
    <div role={role} className={[styles['cell'], isOptional ? styles['optional'] : '', className].join(' ')}>
      {children}
    </div>
  );
}

const ICONS: Record<LogLevel, Icon> = {
  critical: IconAlertOctagon,
  error: IconCircleX,
  warning: IconAlertTriangle,
  information: IconInfoCircle,
  verbose: IconMessageDots,
};

/** A severity by icon, word and colour. */
export function Severity({ level, count }: { level: LogLevel; count?: number | undefined }) {
  const Shown = ICONS[level];
  return (
    <span className={`${styles['severity']} ${styles[level]}`}>
      <Shown size={14} aria-hidden />
      {LEVEL_NAMES[level]}
      {count !== undefined && count > 0 && ` ${count.toLocaleString()}`}
    </span>
  );
}

/** If there is no room for the word, it is said to readers of screens and to the pointer. */
export function SeverityIcon({ level }: { level: LogLevel }) {
  const Shown = ICONS[level];
  return (
    <span className={styles[level]} title={LEVEL_NAMES[level]}>
      <Shown size={14} aria-label={LEVEL_NAMES[level]} role="img" />
    </span>
  );
}

/** A text with the searched words marked. */
export const Marked = memo(function Marked({ text, words }: { text: string; words: readonly string[] }) {
  if (words.length === 0) return text;
  return markMatches(text, words).map(({ text: part, isMatch }, place) =>
    isMatch ? (
      // The parts of a text have no names of their own, and none of them is ever moved.
      // oxlint-disable-next-line react/no-array-index-key
      <mark key={place} className={styles['mark']}>
        {part}
      </mark>
    ) : (
      part
    ),
  );
});
