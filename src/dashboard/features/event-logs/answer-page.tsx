import { Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useMemo, useRef } from 'react';
import { type Answer, apiQuery } from '../../api/index.ts';
import { Empty, formatCount, Loaded, Notice, Page, TextLink } from '../../ui/index.ts';
import { matcherOf } from './log-filter.ts';
import { countLevels, mergeRows, rowOfEntry } from './log-row.ts';
import { LogViewer, zoneOf } from './log-viewer.tsx';
import { QueryBar } from './query-bar.tsx';
import { useLogAddress } from './live-logs.tsx';
import { usePreferences } from './viewer-toolbar.tsx';

/** What one device has answered to a standing question. */
export function AnswerPage({ questionId: id, deviceId }: { questionId: string; deviceId: string }) {
  const answer = useQuery(
    apiQuery('GET /event-log-questions/{id}/devices/{deviceId}', { params: { id, deviceId } }),
  );
  return (
    <Loaded query={answer} what="Reading the answer">
      {(data) => <StoredAnswer questionId={id} answer={data} />}
    </Loaded>
  );
}

function StoredAnswer({
  questionId,
  answer,
}: {
  questionId: string;
  answer: Answer<'GET /event-log-questions/{id}/devices/{deviceId}'>;
}) {
  const { search, change } = useLogAddress();
  const [preferences, setPreferences] = usePreferences();
  const filterField = useRef<HTMLInputElement>(null);
  const { device, data, truncated, leftOut, summary } = answer;
  const name = device.displayName ?? device.hostname;
  const all = useMemo(
    () =>
      mergeRows(
        [],
        data.map((entry) => rowOfEntry(device.deviceId, entry)),
      ).rows,
    [data, device.deviceId],
  );
  const rows = useMemo(() => all.filter(matcherOf(search)), [all, search]);
  const counts = useMemo(() => countLevels(rows), [rows]);
  const sources = useMemo(() => [...new Set(all.map(({ source }) => source))].sort(), [all]);
  return (
    <Page title={`Answer of ${name}`} fill>
      <Text size="sm">
        <TextLink size="sm" underline="always" to="/event-logs/questions" search={{ question: questionId }}>
          All devices of the question
        </TextLink>
      </Text>
      <QueryBar
        search={search}
        onSearch={change}
        counts={counts}
        sources={sources}
        zone={zoneOf(preferences, undefined)}
        filterField={filterField}
      />
      <LogViewer
        rows={rows}
        search={search}
        onSearch={change}
        preferences={preferences}
        onPreferences={setPreferences}
        filterField={filterField}
        deviceZone={undefined}
        deviceName={() => name}
        abilities={{}}
        fileName={`${device.hostname}-answer`.replaceAll(/[^\w.-]+/g, '_')}
        label={`Entries that ${name} has answered`}
        notices={
          truncated && (
            <Notice tone="warning">
              {leftOut > 0
                ? `${formatCount(leftOut)} entries were too large to be kept.`
                : 'The device stopped before it had read its whole log.'}{' '}
              {summary?.note}
            </Notice>
          )
        }
        empty={
          <Empty title="No entries">
            {all.length === 0
              ? 'The device has answered that no entry meets the conditions.'
              : 'None of the stored entries meets the conditions that are set here.'}
          </Empty>
        }
        footer={
          <Text size="xs" component="output">
            {formatCount(rows.length)} of {formatCount(all.length)} stored entries
          </Text>
        }
      />
    </Page>
  );
}
