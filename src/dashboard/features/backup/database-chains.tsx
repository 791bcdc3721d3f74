import { Anchor, Group, Stack, Text, Title } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { apiQuery, type BackupDatabaseChains } from '../../../api/index.ts';
import { scopeQuery, useScope } from '../../../routing/index.ts';
import {
  Action,
  Empty,
  formatCounted,
  formatTime,
  Loaded,
  PagedTable,
  Panel,
  StateBadge,
} from '../../../ui/index.ts';
import { DeviceLink } from '../parts/device-names.tsx';
import { gapsBetween, joined } from './gaps.ts';
import { OneChain } from './one-chain.tsx';
import { Timeline } from './timeline.tsx';

/** What can be restored, a backup store at a time. */
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
  const chains = useQuery({
    ...apiQuery('GET /backup/databases/chains', {
      query: { orgId, deviceId, page: String(page), limit: '10' },
    }),
    placeholderData: keepPreviousData,
  });
  return (
    <Panel title="What can be restored">
      <Loaded query={chains} what="Reading what can be restored">
        {({ data, pagination: { limit, total } }) =>
          data.length === 0 ? (
            <Empty
              title="No database was backed up"
              action={
                <Anchor size="sm" renderRoot={(props) => <Link {...props} to="/backup/configurations" />}>
                  To the configurations
                </Anchor>
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
              <Anchor
                inherit
                underline="always"
                renderRoot={(props) => (
                  <Link {...props} to="/backup/snapshots/$snapshotId" params={{ snapshotId }} />
                )}
              >
                {snapshotId.slice(0, 8)}
              </Anchor>
            ),
          },
          { header: 'Reason', cell: ({ reason }) => reason },
        ]}
      />
      <Text size="sm">The next full backup begins a new chain.</Text>
    </Stack>
  );
}
