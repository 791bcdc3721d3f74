import { useDisclosure } from '@mantine/hooks';
import { IconPlayerPlay } from '@tabler/icons-react';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import { useList, type BackupSnapshot } from '../../api/index.ts';
import { scopeQuery, useScope } from '../../routing.ts';
import { useRefusal } from '../../session.ts';
import { Action, useAddress } from '../../ui/index.ts';
import { BackupFrame } from './backup-frame.tsx';
import { ChooseImageDialog } from './choose-image.tsx';
import { deviceFacet } from './selects.tsx';
import { BootDialog } from './vm-dialogs.tsx';
import { useVmWork, VmDrawer, VmList } from './vm-drawer.tsx';

const route = getRouteApi('/signed-in/backup/instant-boots');
const REFRESH_MS = 15_000;

/** Machines that run from snapshots now, and what has remained of them after a crash. */
export function BootsPage() {
  const address = useAddress(route.useSearch());
  const { device, boot, page = 1 } = address.search;
  const { orgId } = scopeQuery(useScope());
  const live = useVmWork(orgId);
  const boots = useList(
    'GET /backup/restore/instant-boot/active',
    { query: { orgId, deviceId: device, page: String(page) } },
    REFRESH_MS,
  );
  return (
    <VmList
      frame={BackupFrame}
      title="Instant boots"
      description="Virtual machines that run straight from a snapshot, until they are made permanent or discarded."
      actions={<StartBoot />}
      query={boots}
      noun="instant boots"
      address={address}
      facets={[deviceFacet(address, 'Any host')]}
      empty={{
        title: 'No machine runs from a snapshot',
        text: 'Start one here, or in a snapshot of whole disks. It runs within seconds, because nothing is copied.',
      }}
      noneFound={{ title: 'No machine runs from a snapshot', text: 'None runs on this host.' }}
      live={live}
      isOfBoots
      onOpen={(id) => address.set({ boot: id })}
    >
      <VmDrawer id={boot} onClose={() => address.set({ boot: undefined })} />
    </VmList>
  );
}

/** First the snapshot, then what the machine is given. */
function StartBoot() {
  const refusal = useRefusal('recovery:execute');
  const [isChoosing, { open, close }] = useDisclosure(false);
  const [snapshot, setSnapshot] = useState<BackupSnapshot>();
  return (
    <>
      <Action refusal={refusal} icon={IconPlayerPlay} onClick={open}>
        Start from a snapshot …
      </Action>
      {isChoosing && <ChooseImageDialog onChoose={setSnapshot} onClose={close} />}
      {snapshot !== undefined && <BootDialog snapshot={snapshot} onClose={() => setSnapshot(undefined)} />}
    </>
  );
}
