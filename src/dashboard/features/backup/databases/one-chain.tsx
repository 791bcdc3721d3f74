import { Anchor, Group, Stack, Text, Title } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { IconRestore } from '@tabler/icons-react';
import { Link } from '@tanstack/react-router';
import type { BackupDatabaseChains } from '../../../api/index.ts';
import { useRefusal } from '../../../session/index.ts';
import { Action, formatBytes, formatCounted, formatTime, PagedTable } from '../../../ui/index.ts';
import { BACKUP_TYPE_NAMES, databasesText, ENGINE_NAMES } from '../parts/database-names.ts';
import { RestoreDatabaseDialog } from '../restores/restore-database-dialog.tsx';

type Chain = BackupDatabaseChains['chains'][number];

/** A full backup with everything that continues it, and what can be restored of it. */
export function OneChain({
  chain,
  repository: { orgId, deviceId },
}: {
  chain: Chain;
  repository: Pick<BackupDatabaseChains, 'orgId' | 'deviceId'>;
}) {
  const { engine, version, instance, databases, ranges, snapshots } = chain;
  const [isOpen, { open, close }] = useDisclosure(false);
  const refusal = useRefusal('recovery:execute');
  const newest = snapshots.at(-1);
  return (
    <Stack gap={4}>
      <Group justify="space-between">
        <Title order={4} size="h6" style={{ overflowWrap: 'anywhere' }}>
          {ENGINE_NAMES[engine]} {version}, {instance}
        </Title>
        <Action
          variant="default"
          size="compact-sm"
          refusal={refusal ?? (newest === undefined ? 'The chain has no snapshot.' : undefined)}
          leftSection={<IconRestore size={14} aria-hidden />}
          onClick={open}
        >
          {ranges.length > 0 ? 'Restore to a point in time …' : 'Restore …'}
        </Action>
      </Group>
      <Text size="sm">Databases: {databasesText(databases)}</Text>
      {ranges.length === 0 ? (
        <Text size="sm">Each snapshot can be restored, and no point in time between them.</Text>
      ) : (
        ranges.map(({ from, to }) => (
          <Text key={from} size="sm">
            Any point in time from {formatTime(new Date(from))} to {formatTime(new Date(to))}
          </Text>
        ))
      )}
      <details>
        <summary>
          <Text span size="sm">
            {formatCounted(snapshots.length, 'snapshot')}
          </Text>
        </summary>
        <ChainSnapshots snapshots={snapshots} />
      </details>
      {isOpen && newest !== undefined && (
        <RestoreDatabaseDialog
          source={{
            snapshotId: newest.id,
            orgId,
            deviceId,
            engine,
            databases,
            upTo: newest.recoverableTo,
            ranges,
          }}
          onClose={close}
        />
      )}
    </Stack>
  );
}

const ChainSnapshots = ({ snapshots }: Pick<Chain, 'snapshots'>) => (
  <PagedTable
    label="Snapshots of the chain"
    rows={snapshots}
    keyOf={({ id }) => id}
    columns={[
      {
        header: 'Received',
        isName: true,
        cell: ({ id, createdAt }) => (
          <Anchor
            inherit
            renderRoot={(props) => (
              <Link {...props} to="/backup/snapshots/$snapshotId" params={{ snapshotId: id }} />
            )}
          >
            {formatTime(new Date(createdAt))}
          </Anchor>
        ),
      },
      { header: 'Type', cell: ({ backupType }) => BACKUP_TYPE_NAMES[backupType] },
      {
        header: 'Restorable up to',
        cell: ({ recoverableTo }) =>
          recoverableTo === null ? 'Not known' : formatTime(new Date(recoverableTo)),
      },
      {
        header: 'Size',
        align: 'right',
        cell: ({ sizeBytes }) => (sizeBytes === null ? '–' : formatBytes(sizeBytes)),
      },
    ]}
  />
);
