import { Modal, Stack } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { apiQuery, type BackupSnapshot } from '../../../api/index.ts';
import { scopeQuery, useScope } from '../../../routing/index.ts';
import { Action, Empty, formatTime, Loaded, PagedTable } from '../../../ui/index.ts';
import { contentText } from './content-text.ts';
import { DeviceLink, DeviceSelect } from './device-names.tsx';

/** Why nothing can be restored here from where the data of a snapshot is. */
export const notHere = ({ provider }: BackupSnapshot): string | undefined =>
  provider === 'server'
    ? undefined
    : 'The data of this snapshot is not on this server. Restore it with restic and tar.';

/** Of machines on a host, one has to be chosen, which the page of the snapshot does. */
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
  const [deviceId, setDevice] = useState<string>();
  const [page, setPage] = useState(1);
  const images = useQuery({
    ...apiQuery('GET /backup/snapshots', {
      query: { orgId, deviceId, backupType: 'system_image', page: String(page), limit: '10' },
    }),
    placeholderData: keepPreviousData,
  });
  return (
    <Modal
      opened
      onClose={onClose}
      title="Choose a snapshot of whole disks"
      size="xl"
      closeButtonProps={{ 'aria-label': 'Close' }}
    >
      <Stack gap="sm">
        <DeviceSelect
          label="Any device"
          hidesLabel
          value={deviceId}
          onChange={(next) => {
            setDevice(next);
            setPage(1);
          }}
        />
        <Loaded query={images} what="Reading snapshots">
          {({ data, pagination }) =>
            data.length === 0 ? (
              <Empty title="No snapshot of whole disks">
                Make a configuration that backs up whole disks, and run it.
              </Empty>
            ) : (
              <PagedTable
                label="Snapshots of whole disks"
                rows={data}
                keyOf={({ id }) => id}
                page={pagination}
                onPage={setPage}
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
            )
          }
        </Loaded>
      </Stack>
    </Modal>
  );
}
