import { Group, Paper, Stack, Text, Title } from '@mantine/core';
import { useState } from 'react';
import type { SqlChains } from '../../../api/index.ts';
import { useRefusal } from '../../../session/index.ts';
import { Action, formatBytes, formatCounted, PagedTable, StateBadge } from '../../../ui/index.ts';
import { BACKUP_TYPE_NAMES } from '../parts/database-names.ts';
import type { SqlSet, SqlSource } from './sql-parts.ts';
import { SqlRestoreDialog } from './sql-restore-dialog.tsx';

type Chain = SqlChains['data']['chains'][number];

/** By the clock of the machine: "2026-11-23T09:30:00" → "2026-11-23 09:30:00". */
const clockText = (at: string): string => at.replace('T', ' ');

/** A full backup of SQL Server's history, with what joins it. */
export function SqlChain({
  chain: { full, differentials, logs, hasGap, recoverableTo, isOurs },
  source,
  onSent,
}: {
  chain: Chain;
  source: SqlSource;
  onSent: (id: string) => void;
}) {
  const refusal = useRefusal('recovery:execute');
  const [restored, setRestored] = useState<SqlSet>();
  return (
    <Paper withBorder p="sm">
      <Stack gap={4}>
        <Group gap="xs">
          <Title order={3} size="h5">
            Full backup of {clockText(full.finishedAt)}
          </Title>
          {!isOurs && <StateBadge tone="info" label="Of another program" />}
          {full.isCopyOnly && <StateBadge tone="info" label="Copy only" />}
          {hasGap && <StateBadge tone="warning" label="A log is missing" />}
        </Group>
        <Text size="sm">
          With {formatCounted(differentials.length, 'differential backup')} and{' '}
          {formatCounted(logs.length, 'log')}, it can be restored up to {clockText(recoverableTo)} by the
          clock of the machine.
        </Text>
        <PagedTable
          label={`Backups of the chain of ${clockText(full.finishedAt)}`}
          // The history may name several backups alike.
          rows={[full, ...differentials, ...logs].map((set, place) => ({ ...set, key: `${place}` }))}
          keyOf={({ key }) => key}
          columns={[
            { header: 'Ended', isName: true, width: 190, cell: ({ finishedAt }) => clockText(finishedAt) },
            { header: 'Type', width: 150, cell: ({ backupType }) => BACKUP_TYPE_NAMES[backupType] },
            {
              header: 'File',
              cell: ({ file }) => <span style={{ overflowWrap: 'anywhere' }}>{file ?? 'Not known'}</span>,
            },
            {
              header: 'Size',
              align: 'right',
              width: 80,
              cell: ({ sizeBytes }) => (sizeBytes === null ? '–' : formatBytes(sizeBytes)),
            },
            {
              header: 'Actions',
              width: 90,
              cell: (set) => (
                <Action
                  size="compact-xs"
                  variant="subtle"
                  refusal={refusal ?? noRestore(set)}
                  onClick={() => setRestored(set)}
                >
                  Restore …
                </Action>
              ),
            },
          ]}
        />
      </Stack>
      {restored !== undefined && (
        <SqlRestoreDialog
          source={source}
          set={restored}
          onSent={onSent}
          onClose={() => setRestored(undefined)}
        />
      )}
    </Paper>
  );
}

function noRestore({ file, isDamaged }: SqlSet): string | undefined {
  if (isDamaged) return 'SQL Server has marked this backup as damaged.';
  return file === null ? 'SQL Server does not say in which file it is.' : undefined;
}
