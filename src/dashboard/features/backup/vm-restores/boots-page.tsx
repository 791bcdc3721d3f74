import { Group } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { IconPlayerPlay } from '@tabler/icons-react';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import { apiQuery, type BackupSnapshot } from '../../../api/index.ts';
import { scopeQuery, useScope } from '../../../routing/index.ts';
import { useRefusal } from '../../../session/index.ts';
import { Action, Empty, Loaded } from '../../../ui/index.ts';
import { BackupFrame } from '../parts/backup-frame.tsx';
import { ChooseImageDialog } from '../parts/choose-image.tsx';
import { DeviceSelect } from '../parts/device-names.tsx';
import { BootDialog } from './boot-dialog.tsx';
import { useVmWork } from './use-vm-work.ts';
import { VmDrawer } from './vm-standing.tsx';
import { VmTable } from './vm-table.tsx';

const route = getRouteApi('/signed-in/backup/instant-boots');
const REFRESH_MS = 15_000;

/** Machines that run from snapshots now, and what has remained of them after a crash. */
export function BootsPage() {
  const { device, boot, page = 1 } = route.useSearch();
  const navigate = route.useNavigate();
  const { orgId } = scopeQuery(useScope());
  const live = useVmWork(orgId);
  const change = (next: Partial<ReturnType<typeof route.useSearch>>) =>
    void navigate({ search: (previous) => ({ ...previous, ...next }), replace: true });
  const boots = useQuery({
    ...apiQuery('GET /backup/restore/instant-boot/active', {
      query: { orgId, deviceId: device, page: String(page) },
    }),
    refetchInterval: REFRESH_MS,
    placeholderData: keepPreviousData,
  });
  return (
    <BackupFrame
      title="Instant boots"
      description="Virtual machines that run straight from a snapshot, until they are made permanent or discarded."
      actions={<StartBoot />}
    >
      <Group>
        <DeviceSelect
          label="Any host"
          hidesLabel
          value={device}
          onChange={(next) => change({ device: next, page: undefined })}
        />
      </Group>
      <Loaded query={boots} what="Reading instant boots">
        {({ data, pagination }) =>
          data.length === 0 ? (
            <Empty title="No machine runs from a snapshot">
              Start one here, or in a snapshot of whole disks. It runs within seconds, because nothing is
              copied.
            </Empty>
          ) : (
            <VmTable
              label="Instant boots"
              isOfBoots
              restores={data}
              live={live}
              page={pagination}
              onPage={(next) => change({ page: next })}
              onOpen={(id) => change({ boot: id })}
            />
          )
        }
      </Loaded>
      <VmDrawer id={boot} onClose={() => change({ boot: undefined })} />
    </BackupFrame>
  );
}

/** First the snapshot, then what the machine is given. */
function StartBoot() {
  const refusal = useRefusal('recovery:execute');
  const [isChoosing, { open, close }] = useDisclosure(false);
  const [snapshot, setSnapshot] = useState<BackupSnapshot>();
  return (
    <>
      <Action refusal={refusal} leftSection={<IconPlayerPlay size={14} aria-hidden />} onClick={open}>
        Start from a snapshot …
      </Action>
      {isChoosing && <ChooseImageDialog onChoose={setSnapshot} onClose={close} />}
      {snapshot !== undefined && <BootDialog snapshot={snapshot} onClose={() => setSnapshot(undefined)} />}
    </>
  );
}
