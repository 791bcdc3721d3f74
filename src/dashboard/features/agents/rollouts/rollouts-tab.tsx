import { Drawer, Group, Stack } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { IconPlus } from '@tabler/icons-react';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { apiQuery } from '../../../api/index.ts';
import { useRefusal } from '../../../session/index.ts';
import { Action, Empty, Forbidden, formatWord, Loaded, PagedTable, When } from '../../../ui/index.ts';
import { NewRolloutDialog } from './new-rollout-dialog.tsx';
import { RolloutDetails } from './rollout-details.tsx';
import { RolloutState } from './rollout-state.tsx';

const REFRESH_MS = 15_000;
const SYSTEM = { scopes: ['system'] } as const;

/** New versions on their way through the fleet. */
export function RolloutsTab(props: {
  page: number;
  onPage: (page: number) => void;
  opened: string | undefined;
  onOpen: (id: string | undefined) => void;
}) {
  const refusal = useRefusal(SYSTEM);
  return refusal === undefined ? <Rollouts {...props} /> : <Forbidden reason={refusal} isGrantable={false} />;
}

function Rollouts({
  page,
  onPage,
  opened,
  onOpen,
}: {
  page: number;
  onPage: (page: number) => void;
  opened: string | undefined;
  onOpen: (id: string | undefined) => void;
}) {
  const [isMaking, making] = useDisclosure(false);
  const rollouts = useQuery({
    ...apiQuery('GET /agent-rollouts', { query: { page: String(page) } }),
    // Who declines the second factor is not asked again and again.
    refetchInterval: ({ state }) => (state.status === 'success' ? REFRESH_MS : false),
    refetchOnWindowFocus: false,
    placeholderData: keepPreviousData,
  });
  const newRollout = (
    <Action leftSection={<IconPlus size={14} aria-hidden />} onClick={making.open}>
      New rollout
    </Action>
  );
  return (
    <Stack gap="sm">
      <Group justify="flex-end">{newRollout}</Group>
      <Loaded query={rollouts} what="Reading rollouts">
        {({ data, pagination }) =>
          data.length === 0 ? (
            <Empty title="No rollouts">
              A rollout brings a version to the devices in waves, and halts by itself when devices fail.
            </Empty>
          ) : (
            <PagedTable
              label="Rollouts"
              rows={data}
              keyOf={({ id }) => id}
              page={pagination}
              onPage={onPage}
              columns={[
                {
                  header: 'Version',
                  isName: true,
                  cell: ({ component, version }) => `${formatWord(component)} ${version}`,
                },
                { header: 'State', cell: ({ state }) => <RolloutState state={state} /> },
                {
                  header: 'Wave',
                  cell: ({ wave, waves }) =>
                    `${wave + 1} of ${waves.length} (${waves[wave]?.reachedPercent ?? 0} % of the fleet)`,
                },
                { header: 'Started', cell: ({ createdAt }) => <When at={createdAt} /> },
                { header: 'Ended', cell: ({ endedAt }) => <When at={endedAt} never="Not yet" /> },
                {
                  header: 'Details',
                  cell: ({ id }) => (
                    <Action size="compact-xs" variant="subtle" onClick={() => onOpen(id)}>
                      Details
                    </Action>
                  ),
                },
              ]}
            />
          )
        }
      </Loaded>
      <Drawer
        opened={opened !== undefined}
        onClose={() => onOpen(undefined)}
        position="right"
        size="xl"
        title="Rollout"
        closeButtonProps={{ 'aria-label': 'Close' }}
      >
        {opened !== undefined && <RolloutDetails key={opened} id={opened} />}
      </Drawer>
      {isMaking && <NewRolloutDialog onClose={making.close} onMade={onOpen} />}
    </Stack>
  );
}
