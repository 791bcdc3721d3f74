import { Group, Stack, Switch, Text, Title } from '@mantine/core';
import { useState } from 'react';
import type { CloudBackupJobDetails } from '../../../api/index.ts';
import {
  formatBytes,
  formatCount,
  JobStateBadge,
  PagedTable,
  StateBadge,
  type Tone,
} from '../../../ui/index.ts';
import { ITEM_NAMES, KIND_NAMES } from '../parts/kinds.ts';
import { countsText } from './job-texts.ts';

type Outcome = CloudBackupJobDetails['outcomes'][number];
type Item = CloudBackupJobDetails['items'][number];

const PER_PAGE = 25;

/**
 * Of a backup: what became of each kind of each user. Those with failures come first.
 * @param total  how many there are: the server does not list all of very many
 */
export function UserOutcomes({ outcomes, total }: { outcomes: readonly Outcome[]; total: number }) {
  const faulty = outcomes.filter(({ status, itemsFailed }) => status === 'failed' || itemsFailed > 0);
  const [onlyFaulty, setOnlyFaulty] = useState(false);
  const [page, setPage] = useState(1);
  if (outcomes.length === 0) return <Text size="sm">Its users are not known yet.</Text>;
  const shown = onlyFaulty ? faulty : outcomes;
  return (
    <Stack gap={4} component="section" aria-label="Users">
      <Group justify="space-between">
        <Title order={3} size="h5">
          Users
        </Title>
        {faulty.length > 0 && (
          <Switch
            size="xs"
            label={`Only those with failures (${formatCount(faulty.length)})`}
            checked={onlyFaulty}
            onChange={(event) => {
              setOnlyFaulty(event.currentTarget.checked);
              setPage(1);
            }}
          />
        )}
      </Group>
      <PagedTable
        label="What became of each user"
        rows={shown.slice((page - 1) * PER_PAGE, page * PER_PAGE)}
        keyOf={({ userEmail, kind }) => `${userEmail} ${kind}`}
        page={{ page, limit: PER_PAGE, total: shown.length }}
        onPage={setPage}
        columns={[
          { header: 'User', isName: true, cell: ({ userEmail }) => userEmail },
          { header: 'Kind', width: 90, cell: ({ kind }) => KIND_NAMES[kind] },
          {
            header: 'State',
            width: 120,
            cell: ({ status }) =>
              status === 'skipped' ? (
                <StateBadge tone="neutral" label="Not there" title="The user has no such mailbox or drive." />
              ) : (
                <JobStateBadge state={status} />
              ),
          },
          { header: 'Items', cell: (outcome) => <OutcomeText {...outcome} /> },
          {
            header: 'Received',
            align: 'right',
            width: 90,
            cell: ({ bytesTransferred }) => (bytesTransferred === 0 ? '–' : formatBytes(bytesTransferred)),
          },
        ]}
      />
      {total > outcomes.length && (
        <Text size="sm">
          These are {formatCount(outcomes.length)} of {formatCount(total)}; those with failures come first.
        </Text>
      )}
    </Stack>
  );
}

function OutcomeText(outcome: Outcome) {
  const { status, error } = outcome;
  if (status === 'pending') return 'Not begun';
  if (status === 'skipped') return '–';
  return (
    <>
      {countsText(outcome)}
      {error !== null && (
        <Text size="xs" c="dimmed">
          {error.message}
        </Text>
      )}
    </>
  );
}

const ITEM_STATES: Readonly<Record<Item['status'], { tone: Tone; label: string; title?: string }>> = {
  pending: { tone: 'neutral', label: 'Not begun' },
  restored: { tone: 'good', label: 'Restored' },
  present: {
    tone: 'info',
    label: 'There already',
    title: 'An earlier restore has brought this content to the place.',
  },
  failed: { tone: 'bad', label: 'Failed' },
};

/** Of a restore: what became of each item. */
export function RestoredItems({ items }: { items: readonly Item[] }) {
  const [page, setPage] = useState(1);
  if (items.length === 0) return <Text size="sm">Its items were removed by retention since then.</Text>;
  return (
    <Stack gap={4} component="section" aria-label="Items">
      <Title order={3} size="h5">
        Items ({formatCount(items.length)})
      </Title>
      <PagedTable
        label="What became of each item"
        rows={items.slice((page - 1) * PER_PAGE, page * PER_PAGE)}
        keyOf={({ itemId }) => itemId}
        page={{ page, limit: PER_PAGE, total: items.length }}
        onPage={setPage}
        columns={[
          {
            header: 'Name',
            isName: true,
            cell: ({ subjectOrName, itemType }) => (
              <span style={{ wordBreak: 'break-word' }}>
                {subjectOrName === '' ? `${ITEM_NAMES[itemType]} without a name` : subjectOrName}
              </span>
            ),
          },
          { header: 'Kind', width: 90, cell: ({ itemType }) => ITEM_NAMES[itemType] },
          { header: 'Of', cell: ({ userEmail }) => userEmail },
          { header: 'State', width: 130, cell: ({ status }) => <StateBadge {...ITEM_STATES[status]} /> },
          { header: 'Cause', cell: ({ error }) => error?.message ?? '–' },
        ]}
      />
    </Stack>
  );
}
