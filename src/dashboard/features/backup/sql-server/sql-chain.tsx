import { Group, Paper, Stack, Text, Title } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { useState } from 'react';
import { useRefusal } from '../../../session/index.ts';
import { Action, formatBytes, formatCounted, PagedTable, StateBadge } from '../../../ui/index.ts';
import { BACKUP_TYPE_NAMES } from '../parts/database-names.ts';
import { noRestore, setsOf, type Chain, type ChainOrder } from './restore-path.ts';
import { clockText, type SqlSet, type SqlSource } from './sql-parts.ts';
import { SqlChainDialog } from './sql-chain-dialog.tsx';
import { SqlRestoreDialog } from './sql-restore-dialog.tsx';

/** A full backup of SQL Server's history, with what joins it. */
export function SqlChain({
  chain,
  source,
  onSent,
  onBegun,
}: {
  chain: Chain;
  source: SqlSource;
  onSent: (id: string) => void;
  /** The restore of several backups has begun. */
  onBegun: (order: ChainOrder, firstId: string) => void;
}) {
  const { full, differentials, logs, hasGap, recoverableTo, isOurs } = chain;
  const [isOpen, { open, close }] = useDisclosure(false);
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
          <Action size="compact-xs" variant="light" refusal={refusal ?? noRestore(full)} onClick={open}>
            Restore with its chain …
          </Action>
        </Group>
        <Text size="sm">
          With {formatCounted(differentials.length, 'differential backup')} and{' '}
          {formatCounted(logs.length, 'log')}, it can be restored up to {clockText(recoverableTo)} by the
          clock of the machine.
        </Text>
        <PagedTable
          label={`Backups of the chain of ${clockText(full.finishedAt)}`}
          // The history may name several backups alike.
          rows={setsOf(chain).map((set, place) => ({ ...set, key: `${place}` }))}
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
      {isOpen && <SqlChainDialog chain={chain} source={source} onBegun={onBegun} onClose={close} />}
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
