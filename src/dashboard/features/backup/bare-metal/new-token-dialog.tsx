import { Checkbox, Radio, Select, Stack, Text } from '@mantine/core';
import { useState } from 'react';
import { useApiChange, type BackupSnapshot } from '../../../api/index.ts';
import { FormDialog, formatBytes, formatTime } from '../../../ui/index.ts';
import { useDeviceName } from '../parts/device-names.tsx';
import { CreatedToken } from './created-token.tsx';

const LIVES = [
  { value: '4', label: '4 hours' },
  { value: '24', label: 'One day' },
  { value: '72', label: 'Three days' },
  { value: '168', label: 'One week' },
];

interface Props {
  snapshot: BackupSnapshot;
  onClose: () => void;
}

/** Creates a recovery token for one image, and shows it the one time. */
export function NewTokenDialog({ snapshot, onClose }: Props) {
  const create = useApiChange('POST /backup/bmr/token', { refreshes: ['GET /backup/bmr/token'] });
  const made = create.data;
  return made === undefined ? (
    <TokenForm
      snapshot={snapshot}
      onClose={onClose}
      create={async (body) => {
        await create.mutateAsync({ body });
      }}
    />
  ) : (
    <CreatedToken made={made} onClose={onClose} />
  );
}

type Body = Parameters<ReturnType<typeof useApiChange<'POST /backup/bmr/token'>>['mutateAsync']>[0]['body'];

function TokenForm({ snapshot, onClose, create }: Props & { create: (body: Body) => Promise<void> }) {
  const machine = useDeviceName(snapshot.deviceId);
  const all = snapshot.details?.kind === 'image' ? snapshot.details.disks : [];
  const [isWhole, setWhole] = useState(true);
  const [disks, setDisks] = useState<string[]>([]);
  const [hours, setHours] = useState('24');
  const [grow, setGrow] = useState(false);
  const submit = () =>
    create({
      snapshotId: snapshot.id,
      expiresInHours: Number(hours),
      restoreType: isWhole ? 'bare_metal' : 'selective',
      targetConfig: { grow, ...(isWhole ? {} : { disks }) },
    });
  return (
    <FormDialog
      title="New recovery token"
      size="lg"
      opened
      onClose={onClose}
      submitLabel="Create the token"
      submit={submit}
      // The token takes the place of the form.
      onDone={() => undefined}
    >
      {(faults) => (
        <>
          <Text size="sm">
            With the token, a machine without an agent fetches the disks of {machine}, as they were on{' '}
            {formatTime(new Date(snapshot.createdAt))}. It begins one recovery.
          </Text>
          <Radio.Group
            label="What is recovered"
            value={isWhole ? 'whole' : 'chosen'}
            onChange={(value) => setWhole(value === 'whole')}
          >
            <Stack gap="xs" mt="xs">
              <Radio value="whole" label="The whole machine" description="All of its disks." />
              <Radio
                value="chosen"
                label="Some disks"
                disabled={all.length < 2}
                description={all.length < 2 ? 'The snapshot has one disk.' : 'Other disks are left alone.'}
              />
            </Stack>
          </Radio.Group>
          {!isWhole && (
            <Checkbox.Group
              label="Disks"
              required
              value={disks}
              onChange={setDisks}
              error={faults['targetConfig.disks']}
            >
              <Stack gap="xs" mt="xs">
                {all.map(({ name, sizeBytes }) => (
                  <Checkbox key={name} value={name} label={`${name}, ${formatBytes(sizeBytes)}`} />
                ))}
              </Stack>
            </Checkbox.Group>
          )}
          <Checkbox
            label="Use all of a larger disk"
            description="The last partition then reaches its end."
            checked={grow}
            onChange={(event) => setGrow(event.currentTarget.checked)}
          />
          <Select
            label="Valid for"
            description="Until when the recovery must begin. One that has begun may take 48 hours."
            data={LIVES}
            allowDeselect={false}
            value={hours}
            onChange={(value) => setHours(value ?? '24')}
            error={faults['expiresInHours']}
            data-autofocus
          />
        </>
      )}
    </FormDialog>
  );
}
