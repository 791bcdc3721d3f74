import { getRouteApi } from '@tanstack/react-router';
import { useList } from '../../api/index.ts';
import { useScope } from '../../routing.ts';
import { useMe } from '../../session.ts';
import { ButtonLink, formatSpan, ListPage, NameCell, StateBadge, useAddress, When } from '../../ui/index.ts';
import { countsText, lookOf, RUN_STATES } from './run-text.ts';
import { ScriptsFrame } from './scripts-frame.tsx';

const route = getRouteApi('/signed-in/scripts/runs');
/** Runs go on by themselves. */
const REFRESH_MS = 5000;

/** What was run on which devices, and what became of it. */
export function RunsPage() {
  const address = useAddress(route.useSearch());
  const { state, by, script, schedule, page = 1 } = address.search;
  const { orgId } = useScope();
  const me = useMe();
  const runs = useList(
    'GET /script-runs',
    {
      query: {
        orgId,
        state,
        scriptId: script,
        scheduleId: schedule,
        createdBy: by === 'me' ? me.user.id : undefined,
        page: String(page),
      },
    },
    REFRESH_MS,
  );
  return (
    <ListPage
      frame={ScriptsFrame}
      title="Script runs"
      description="Each run of a script on devices, and what became of it. Those of devices that you can access."
      query={runs}
      noun="script runs"
      keyOf={({ id }) => id}
      address={address}
      facets={[
        {
          kind: 'choice',
          name: 'state',
          label: 'State',
          any: 'Any state',
          options: STATES,
        },
        {
          kind: 'view',
          name: 'by',
          label: 'Started by',
          first: 'By anyone',
          options: [{ value: 'me', label: 'By me' }],
        },
        { kind: 'hidden', name: 'script' },
        { kind: 'hidden', name: 'schedule' },
      ]}
      empty={{
        title: 'Nothing was run yet',
        text: 'When a script is run on devices, it is listed here with what became of it on each of them.',
        action: <ButtonLink to="/scripts">Choose a script</ButtonLink>,
      }}
      columns={[
        {
          header: 'Script',
          isName: true,
          cell: ({ id, scriptName, createdByName }) => (
            <NameCell
              name={scriptName}
              description={createdByName === null ? null : `By ${createdByName}`}
              to="/scripts/runs/$runId"
              params={{ runId: id }}
            />
          ),
        },
        { header: 'State', width: 190, cell: (run) => <StateBadge {...lookOf(run)} /> },
        { header: 'Devices', cell: countsText },
        { header: 'Started', width: 120, cell: ({ createdAt }) => <When at={createdAt} /> },
        {
          header: 'Took',
          width: 100,
          cell: ({ createdAt, finishedAt }) => formatSpan(createdAt, finishedAt) ?? '–',
        },
      ]}
    />
  );
}

const STATES = (['starting', 'running', 'cancelling', 'completed', 'cancelled', 'failed'] as const).map(
  (value) => ({ value, label: RUN_STATES[value].label }),
);
