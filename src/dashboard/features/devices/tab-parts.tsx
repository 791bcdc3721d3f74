import { Group, Paper, Title, Code, Text, Select } from '@mantine/core';
import { getRouteApi } from '@tanstack/react-router';
import { Fragment, type ReactNode } from 'react';
import { useNow, formatWord, StateBadge, type Tone, useAddress } from '../../ui/index.ts';
import styles from './tab-parts.module.css';

const route = getRouteApi('/signed-in/devices/$deviceId');

/** The state of the tabs of the page of a device. */
export const useDeviceAddress = () => useAddress(route.useSearch());

const TONES: Record<string, Tone> = {
  critical: 'bad',
  error: 'bad',
  warning: 'warning',
  warn: 'warning',
  info: 'info',
  debug: 'neutral',
};

export function LevelBadge({ level }: { level: string }) {
  return <StateBadge tone={TONES[level] ?? 'neutral'} label={formatWord(level)} />;
}

/** The words of an address that a list really has, joined as the API takes them. */
export const joined = (chosen: readonly string[] | undefined, words: readonly string[]): string | undefined =>
  chosen?.filter((word) => words.includes(word)).join(',') || undefined;

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

const RANGES: Record<string, { label: string; ms: number | undefined }> = {
  hour: { label: 'Last hour', ms: HOUR_MS },
  day: { label: 'Last 24 hours', ms: 24 * HOUR_MS },
  week: { label: 'Last 7 days', ms: 7 * 24 * HOUR_MS },
  month: { label: 'Last 30 days', ms: 30 * 24 * HOUR_MS },
  all: { label: 'All that is kept', ms: undefined },
};
const CHOICES = Object.entries(RANGES).map(([value, { label }]) => ({ value, label }));

/** Where a range begins moves on in steps, so that a list is not read anew all the time. */
const STEP_MS = 10 * MINUTE_MS;

/** The beginning of a range, some minutes early; `undefined` if it has none. */
export function useRangeBegin(range: string): string | undefined {
  const now = useNow();
  const ms = RANGES[range]?.ms;
  return ms === undefined ? undefined : new Date(Math.floor(now / STEP_MS) * STEP_MS - ms).toISOString();
}

export function RangeSelect({ value, onChange }: { value: string; onChange: (range: string) => void }) {
  return (
    <Select
      w={150}
      aria-label="Time"
      data={CHOICES}
      value={Object.hasOwn(RANGES, value) ? value : 'all'}
      allowDeselect={false}
      onChange={(range) => {
        if (range !== null) onChange(range);
      }}
    />
  );
}

const SHOWN_MAX = 600;

/** A text, and below it what belongs to it and the rest of a long one, which is opened on demand. */
export function WithDetails({ details, children }: { details: unknown; children: ReactNode }) {
  const isEmpty =
    details === null ||
    details === undefined ||
    (typeof details === 'object' && Object.keys(details).length === 0);
  const isLong = typeof children === 'string' && children.length > SHOWN_MAX;
  return (
    <>
      <Text size="sm" style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>
        {isLong ? `${children.slice(0, SHOWN_MAX)} …` : children}
      </Text>
      {isLong && (
        <details>
          <summary>All of it</summary>
          <Code block tabIndex={0} mah={360} style={{ overflow: 'auto', whiteSpace: 'pre-wrap' }}>
            {children}
          </Code>
        </details>
      )}
      {!isEmpty && (
        <details>
          <summary>Details</summary>
          {/* Reached by keyboard, because a long one scrolls. */}
          <Code block tabIndex={0} mah={260} style={{ overflow: 'auto' }}>
            {JSON.stringify(details, undefined, 2)}
          </Code>
        </details>
      )}
    </>
  );
}

/** A part of the summary, with its heading. */
export function Card({
  title,
  action,
  children,
}: {
  title: string;
  action?: ReactNode;
  children: ReactNode;
}) {
  return (
    <Paper
      withBorder
      p="sm"
      component="section"
      aria-label={title}
      {...(styles['card'] === undefined ? {} : { className: styles['card'] })}
    >
      <Group justify="space-between" mb={6} mih={22}>
        <Title order={2} size="h5">
          {title}
        </Title>
        {action}
      </Group>
      {children}
    </Paper>
  );
}

export type Fact = readonly [name: ReactNode, value: ReactNode];

/** Names and values. What is not known is left out. */
export function Facts({ facts, none = 'Nothing was reported.' }: { facts: readonly Fact[]; none?: string }) {
  const known = facts.filter(([, value]) => value !== undefined && value !== null && value !== '');
  if (known.length === 0) return <p className={styles['facts']}>{none}</p>;
  return (
    <dl className={styles['facts']}>
      {known.map(([name, value], place) => (
        // Names may occur twice, as two steps in the same second do.
        // oxlint-disable-next-line react/no-array-index-key
        <Fragment key={place}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </Fragment>
      ))}
    </dl>
  );
}
