import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { apiQuery } from '../../../api/index.ts';
import { scopeQuery, useScope } from '../../../routing/index.ts';
import { Empty, Loaded } from '../../../ui/index.ts';
import { useVmWork } from './use-vm-work.ts';
import { VmTable } from './vm-table.tsx';

const REFRESH_MS = 15_000;

/** All machines that snapshots became, also those that have ended, the newest first. */
export function VmRestoreList({
  deviceId,
  page,
  onPage,
  onOpen,
}: {
  /** The host. */
  deviceId: string | undefined;
  page: number;
  onPage: (page: number) => void;
  onOpen: (id: string) => void;
}) {
  const { orgId } = scopeQuery(useScope());
  const live = useVmWork(orgId);
  const restores = useQuery({
    ...apiQuery('GET /backup/restore/vm', { query: { orgId, deviceId, page: String(page) } }),
    refetchInterval: REFRESH_MS,
    placeholderData: keepPreviousData,
  });
  return (
    <Loaded query={restores} what="Reading virtual machines">
      {({ data, pagination }) =>
        data.length === 0 ? (
          <Empty title="No snapshot became a machine">
            Open a snapshot of whole disks to start one from it.
          </Empty>
        ) : (
          <VmTable
            label="Virtual machines of snapshots"
            restores={data}
            live={live}
            page={pagination}
            onPage={onPage}
            onOpen={onOpen}
          />
        )
      }
    </Loaded>
  );
}
