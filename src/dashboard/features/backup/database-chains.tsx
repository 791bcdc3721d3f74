import { Group, Stack, Text, Title } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { IconRestore } from '@tabler/icons-react';
import { type BackupDatabaseChains, useList } from '../../api/index.ts';
import { scopeQuery, useScope } from '../../routing.ts';
import { useRefusal } from '../../session.ts';
import {
  Action,
  Empty,
  formatCounted,
  formatTime,
  Loaded,
  PagedTable,
  Panel,
  StateBadge,
  formatBytes,
  TextLink,
} from '../../ui/index.ts';
import { RestoreDatabaseDialog } from './restore-database-dialog.tsx';
import { DeviceLink } from './selects.tsx';
import { BACKUP_TYPE_NAMES, databasesText, ENGINE_NAMES } from './texts.ts';

/** The restorable ranges of databases, one backup store at a time. */
export function Chains({
  deviceId,
  page,
  onPage,
}: {
  deviceId: string | undefined;
  page: number;
  onPage: (page: number) => void;
}) {
  const { orgId } = scopeQuery(useScope());
  const chains = useList('GET /backup/databases/chains', {
    query: { orgId, deviceId, page: String(page), limit: '10' },
  });
  return (
    <Panel title="What can be restored">
      <Loaded query={chains} what="Reading what can be restored">
        {({ data, pagination: { limit, total } }) =>
          data.length === 0 ? (
            <Empty
              title="No database was backed up"
              action={
                <TextLink size="sm" to="/backup/configurations">
                  To the configurations
                </TextLink>
              }
            >
              Make a configuration that backs up databases, and run it.
            </Empty>
          ) : (
            <Stack gap="lg">
              {data.map((repository) => (
                <Repository key={repository.repositoryId} repository={repository} />
              ))}
              {total > limit && (
                <Group>
                  <Action
                    variant="default"
                    refusal={page === 1 ? 'These are the first.' : undefined}
                    onClick={() => onPage(page - 1)}
                  >
                    Before these
                  </Action>
                  <Action
                    variant="default"
                    refusal={page * limit >= total ? 'These are the last.' : undefined}
                    onClick={() => onPage(page + 1)}
                  >
                    After these
                  </Action>
                </Group>
              )}
            </Stack>
          )
        }
      </Loaded>
    </Panel>
  );
}

function Repository({ repository }: { repository: BackupDatabaseChains }) {
  const { deviceId, isVault, chains, broken } = repository;
  const servers = [...new Set(chains.map(serverOf))];
  return (
    <Stack gap="xs">
      <Group gap="xs">
        <Title order={3} size="h5">
          <DeviceLink id={deviceId} />
        </Title>
        {isVault && <StateBadge tone="info" label="Copies in a vault" />}
      </Group>
      {servers.map((server) => (
        <ServerChains
          key={server}
          chains={chains.filter((chain) => serverOf(chain) === server)}
          repository={repository}
        />
      ))}
      {broken.length > 0 && <Broken broken={broken} />}
    </Stack>
  );
}

type Chain = BackupDatabaseChains['chains'][number];

/** A backup store can hold the chains of several servers, each with gaps of its own. */
const serverOf = ({ engine, instance }: Chain): string => `${engine} ${instance}`;

function ServerChains({
  chains,
  repository,
}: {
  chains: readonly Chain[];
  repository: BackupDatabaseChains;
}) {
  const ranges = joined(chains.flatMap((chain) => chain.ranges));
  return (
    <>
      <Timeline ranges={ranges} />
      {chains.map((chain) => (
        <OneChain key={chain.id} chain={chain} repository={repository} />
      ))}
      {gapsBetween(ranges).map(({ from, to }) => (
        <Text key={from} size="sm" fw={600}>
          No point in time between {formatTime(new Date(from))} and {formatTime(new Date(to))} can be
          restored.
        </Text>
      ))}
    </>
  );
}

/** Why snapshots cannot be restored. */
function Broken({ broken }: Pick<BackupDatabaseChains, 'broken'>) {
  return (
    <Stack gap={4} align="flex-start">
      <StateBadge tone="warning" label={`${formatCounted(broken.length, 'snapshot')} cannot be restored`} />
      <PagedTable
        label="Snapshots that cannot be restored"
        rows={broken}
        keyOf={({ snapshotId }) => snapshotId}
        columns={[
          {
            header: 'Snapshot',
            isName: true,
            width: 140,
            cell: ({ snapshotId }) => (
              <TextLink inherit underline="always" to="/backup/snapshots/$snapshotId" params={{ snapshotId }}>
                {snapshotId.slice(0, 8)}
              </TextLink>
            ),
          },
          { header: 'Reason', cell: ({ reason }) => reason },
        ]}
      />
      <Text size="sm">The next full backup begins a new chain.</Text>
    </Stack>
  );
}

/** A full backup with everything that continues it, and what can be restored of it. */
function OneChain({
  chain,
  repository: { orgId, deviceId },
}: {
  chain: Chain;
  repository: Pick<BackupDatabaseChains, 'orgId' | 'deviceId'>;
}) {
  const { engine, version, instance, databases, databaseCount, ranges, snapshots } = chain;
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
          icon={IconRestore}
          onClick={open}
        >
          {ranges.length > 0 ? 'Restore to a point in time …' : 'Restore …'}
        </Action>
      </Group>
      <Text size="sm">Databases: {databasesText(databases, databaseCount)}</Text>
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
          <TextLink inherit to="/backup/snapshots/$snapshotId" params={{ snapshotId: id }}>
            {formatTime(new Date(createdAt))}
          </TextLink>
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

interface Range {
  from: string;
  to: string;
}

const startOf = ({ from }: Range) => Date.parse(from);
const endOf = ({ to }: Range) => Date.parse(to);

/** Ranges in the order of time; those that touch are one. */
function joined(ranges: readonly Range[]): Range[] {
  const whole: Range[] = [];
  for (const range of [...ranges].sort((a, b) => startOf(a) - startOf(b))) {
    const last = whole.at(-1);
    if (last === undefined || startOf(range) > endOf(last)) whole.push({ ...range });
    else if (endOf(range) > endOf(last)) last.to = range.to;
  }
  return whole;
}

/** The gaps between joined ranges, of which nothing can be restored. */
const gapsBetween = (ranges: readonly Range[]): Range[] =>
  ranges.slice(1).map(({ from }, before) => ({ from: ranges[before]?.to ?? from, to: from }));

const HEIGHT = 10;
const WIDTH = 1000;
/** A range of a second is still seen. */
const NARROWEST = 4;

/** The restorable ranges as bars along the time. The words beside it say the same. */
function Timeline({ ranges }: { ranges: readonly Range[] }) {
  const [first, last] = [ranges[0], ranges.at(-1)];
  if (first === undefined || last === undefined) return null;
  const start = Date.parse(first.from);
  const span = Math.max(1, Date.parse(last.to) - start);
  const x = (at: string) => ((Date.parse(at) - start) / span) * WIDTH;
  return (
    <div aria-hidden>
      <svg width="100%" height={HEIGHT} viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none">
        <rect width={WIDTH} height={HEIGHT} fill="var(--mantine-color-default-border)" />
        {ranges.map(({ from, to }) => (
          <rect
            key={from}
            x={Math.min(x(from), WIDTH - NARROWEST)}
            width={Math.max(NARROWEST, x(to) - x(from))}
            height={HEIGHT}
            fill="var(--mantine-color-teal-filled)"
          />
        ))}
      </svg>
      <Text size="xs" c="dimmed" style={{ display: 'flex', justifyContent: 'space-between' }}>
        <span>{formatTime(new Date(first.from))}</span>
        <span>{formatTime(new Date(last.to))}</span>
      </Text>
    </div>
  );
}
