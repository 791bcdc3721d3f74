import { Anchor, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { apiQuery } from '../../../api/index.ts';
import { Loaded, PagedTable, Panel, When } from '../../../ui/index.ts';
import { DeviceLink } from '../parts/device-names.tsx';

const REFRESH_MS = 30_000;
const SHOWN = '5';

/** The last backups that failed, each with its cause. */
export function FailedJobs({ orgId }: { orgId: string | undefined }) {
  const jobs = useQuery({
    ...apiQuery('GET /backup/jobs', { query: { orgId, status: 'failed', limit: SHOWN } }),
    refetchInterval: REFRESH_MS,
  });
  return (
    <Panel title="Failed jobs">
      <Loaded query={jobs} what="Reading failed jobs">
        {({ data }) =>
          data.length === 0 ? (
            <Text size="sm">No backup has failed.</Text>
          ) : (
            <PagedTable
              label="Failed jobs"
              rows={data}
              keyOf={({ id }) => id}
              columns={[
                { header: 'Device', isName: true, cell: ({ deviceId }) => <DeviceLink id={deviceId} /> },
                {
                  header: 'Cause',
                  cell: ({ id, error }) => (
                    <Anchor
                      inherit
                      renderRoot={(props) => <Link {...props} to="/backup/jobs" search={{ job: id }} />}
                    >
                      {error?.message ?? 'Not known'}
                    </Anchor>
                  ),
                },
                { header: 'When', width: 110, cell: ({ createdAt }) => <When at={createdAt} /> },
              ]}
            />
          )
        }
      </Loaded>
    </Panel>
  );
}
