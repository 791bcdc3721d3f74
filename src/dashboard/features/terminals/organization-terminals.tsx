import { Switch } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { apiQuery, useApiChange } from '../../api/index.ts';
import { useRefusal } from '../../session.ts';
import { Failure, Loaded, Panel } from '../../ui/index.ts';

/** Whether terminals of the organization's devices may be opened. */
export function OrganizationTerminals({ orgId }: { orgId: string }) {
  const settings = useQuery(apiQuery('GET /orgs/organizations/{id}/terminals', { params: { id: orgId } }));
  const change = useApiChange('PUT /orgs/organizations/{id}/terminals', {
    refreshes: ['GET /orgs/organizations/{id}/terminals'],
  });
  const refusal = useRefusal('organizations:write');
  return (
    <Panel title="Terminals">
      <Loaded query={settings} what="Reading the setting">
        {({ enabled }) => (
          <Switch
            checked={enabled}
            disabled={refusal !== undefined || change.isPending}
            onChange={(event) =>
              change.mutate({ params: { id: orgId }, body: { enabled: event.currentTarget.checked } })
            }
            label="Allow terminals of its devices"
            description={
              refusal ??
              'People with the permission devices:terminal and a fresh second factor may open them. What they show is recorded and kept for 90 days.'
            }
          />
        )}
      </Loaded>
      {change.error !== null && <Failure error={change.error} />}
    </Panel>
  );
}
