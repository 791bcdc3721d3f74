import { type BackupSnapshot, useList } from '../../api/index.ts';
import { scopeQuery, useScope } from '../../routing.ts';
import { useLocalAddress, Action, formatTime, Modal, List } from '../../ui/index.ts';
import { deviceFacet, DeviceLink } from './selects.tsx';
import { contentText } from './texts.ts';

/** Why nothing can be restored here from where the data of a snapshot is. */
export const notHere = ({ provider }: BackupSnapshot): string | undefined =>
  provider === 'server'
    ? undefined
    : 'The data of this snapshot is not on this server. Restore it with restic and tar.';

/** One of the machines on a host has to be chosen, which the page of the snapshot does. */
const notOne = ({ details }: BackupSnapshot): string | undefined =>
  details?.kind === 'image'
    ? undefined
    : 'This snapshot is of the machines of a host. Open it, and choose the machine there.';

/** The snapshots of whole disks, of which one is chosen. */
export function ChooseImageDialog({
  onChoose,
  onClose,
}: {
  onChoose: (snapshot: BackupSnapshot) => void;
  onClose: () => void;
}) {
  const { orgId } = scopeQuery(useScope());
  const address = useLocalAddress<{ device?: string | undefined; page?: number }>({});
  const { device, page = 1 } = address.search;
  const images = useList('GET /backup/snapshots', {
    query: { orgId, deviceId: device, backupType: 'system_image', page: String(page), limit: '10' },
  });
  return (
    <Modal opened onClose={onClose} title="Choose a snapshot of whole disks" size="xl">
      <List
        query={images}
        noun="snapshots"
        label="Snapshots of whole disks"
        keyOf={({ id }) => id}
        address={address}
        facets={[deviceFacet(address)]}
        empty={{
          title: 'No snapshot of whole disks',
          text: 'Make a configuration that backs up whole disks, and run it.',
        }}
        noneFound={{
          title: 'No snapshot of whole disks',
          text: 'The disks of this device were not backed up.',
        }}
        columns={[
          {
            header: 'Received',
            isName: true,
            cell: ({ createdAt }) => formatTime(new Date(createdAt)),
          },
          { header: 'Device', cell: (snapshot) => <DeviceLink id={snapshot.deviceId} /> },
          { header: 'What', cell: contentText },
          {
            header: 'Choice',
            width: 90,
            cell: (snapshot) => (
              <Action
                size="compact-xs"
                variant="light"
                refusal={notHere(snapshot) ?? notOne(snapshot)}
                onClick={() => {
                  onClose();
                  onChoose(snapshot);
                }}
              >
                Choose
              </Action>
            ),
          },
        ]}
      />
    </Modal>
  );
}
