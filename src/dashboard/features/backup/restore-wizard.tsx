import { Checkbox, Group, Radio, Stack, Stepper, Text, TextInput } from '@mantine/core';
import { useState } from 'react';
import { useApiChange, type BackupSnapshot } from '../../api/index.ts';
import { Action, Failure, formatTime, Modal } from '../../ui/index.ts';
import { DeviceSelect, useDeviceName } from './selects.tsx';
import { pathsText, placeName, type VolumePlace } from './texts.ts';
import { RestoreProgress } from './restore-progress.tsx';

type Overwrite = 'never' | 'ifNewer' | 'always';
const RULES: readonly { value: Overwrite; label: string; description: string }[] = [
  { value: 'never', label: 'Keep existing files', description: 'A file that exists is left as it is.' },
  {
    value: 'ifNewer',
    label: 'Replace older files',
    description: 'A file is replaced if the one of the snapshot is newer.',
  },
  {
    value: 'always',
    label: 'Replace every file',
    description: 'What was changed since the snapshot is lost in the files that are restored.',
  },
];
const LAST_STEP = 2;

/** Asks what is restored, to where, and what happens to existing files; then shows the progress. */
export function RestoreWizard({
  snapshot,
  volume,
  asOf,
  chosen,
  onClose,
}: {
  snapshot: BackupSnapshot;
  /** For an image: the volume that the files come out of. */
  volume?: VolumePlace;
  /** The state of the backup store that is restored from; without it, that of now. */
  asOf?: string | undefined;
  /** Paths that were chosen in the browser. */
  chosen: readonly string[];
  onClose: () => void;
}) {
  const [step, setStep] = useState(0);
  const [isWhole, setWhole] = useState(chosen.length === 0);
  const [deviceId, setDevice] = useState<string | undefined>(snapshot.deviceId);
  const [place, setPlace] = useState<'new' | 'path'>('new');
  const [path, setPath] = useState('');
  const [overwrite, setOverwrite] = useState<Overwrite>('never');
  const [isTrial, setTrial] = useState(false);
  const [begun, setBegun] = useState<{ id: string; isTrial: boolean }>();
  const restore = useApiChange('POST /backup/restore', { refreshes: ['GET /backup/restore'] });
  const begin = (dryRun: boolean) =>
    restore.mutate(
      {
        body: {
          snapshotId: snapshot.id,
          ...(volume === undefined ? {} : { volume: named(volume) }),
          ...(asOf === undefined ? {} : { asOf }),
          ...(deviceId === undefined ? {} : { deviceId }),
          ...(place === 'path' ? { targetPath: path.trim() } : {}),
          ...(isWhole
            ? { restoreType: 'full' as const }
            : { restoreType: 'selective' as const, selectedPaths: [...chosen] }),
          overwrite,
          dryRun,
        },
      },
      { onSuccess: ({ id }) => setBegun({ id, isTrial: dryRun }) },
    );
  /** Nothing is chosen that could harm what is there, so the later steps can be left out. */
  const isAsOffered = deviceId === snapshot.deviceId && place === 'new' && !isTrial;
  const missing = [
    undefined,
    deviceId === undefined
      ? 'Choose a device first.'
      : place === 'path' && path.trim() === ''
        ? 'Name the folder first.'
        : undefined,
    undefined,
  ][step];
  return (
    <Modal opened onClose={onClose} title="Restore" size="lg">
      {begun !== undefined ? (
        <Stack>
          <RestoreProgress id={begun.id} />
          <Group justify="flex-end">
            {begun.isTrial && (
              <Action loading={restore.isPending} onClick={() => begin(false)}>
                Now restore it
              </Action>
            )}
            <Action variant="default" onClick={onClose}>
              Close
            </Action>
          </Group>
          {restore.error !== null && <Failure error={restore.error} />}
          <Text size="sm">It goes on when you close this. The page “Restores” shows how it ends.</Text>
        </Stack>
      ) : (
        <Stack>
          <Stepper active={step} onStepClick={setStep} allowNextStepsSelect={false} size="sm">
            <Stepper.Step label="What">
              <Radio.Group
                label="What is restored"
                value={isWhole ? 'whole' : 'chosen'}
                onChange={(value) => setWhole(value === 'whole')}
              >
                <Stack gap="xs" mt="xs">
                  <Radio
                    value="whole"
                    label={
                      volume === undefined ? 'Everything in the snapshot' : 'Everything in the file system'
                    }
                    description={
                      volume === undefined ? pathsText(snapshot) : placeName(volume.disk, volume.partition)
                    }
                  />
                  <Radio
                    value="chosen"
                    disabled={chosen.length === 0}
                    label={`What is chosen (${chosen.length})`}
                    description={
                      chosen.length === 0
                        ? 'Choose files and folders in the list first.'
                        : chosen.slice(0, 5).join(', ') + (chosen.length > 5 ? ' …' : '')
                    }
                  />
                </Stack>
              </Radio.Group>
            </Stepper.Step>
            <Stepper.Step label="Where">
              <Stack gap="sm">
                <DeviceSelect
                  label="To which device"
                  description="The device that was backed up, or another one of its organization."
                  orgId={snapshot.orgId}
                  value={deviceId}
                  onChange={setDevice}
                />
                <Radio.Group
                  label="Into which folder"
                  value={place}
                  onChange={(value) => setPlace(value === 'path' ? 'path' : 'new')}
                >
                  <Stack gap="xs" mt="xs">
                    <Radio
                      value="new"
                      label="A new folder"
                      description="Nothing that is there is touched. The finished restore names the folder."
                    />
                    <Radio
                      value="path"
                      label="A folder of the device"
                      description="The data comes there below its whole path."
                    />
                  </Stack>
                </Radio.Group>
                {place === 'path' && (
                  <TextInput
                    label="Folder"
                    required
                    placeholder="/srv/restored or D:\Restored"
                    value={path}
                    onChange={(event) => setPath(event.currentTarget.value)}
                  />
                )}
              </Stack>
            </Stepper.Step>
            <Stepper.Step label="How">
              <Stack gap="sm">
                <Radio.Group
                  label="Files that are there already"
                  value={overwrite}
                  onChange={(value) =>
                    setOverwrite(RULES.find((rule) => rule.value === value)?.value ?? 'never')
                  }
                >
                  <Stack gap="xs" mt="xs">
                    {RULES.map((rule) => (
                      <Radio key={rule.value} {...rule} />
                    ))}
                  </Stack>
                </Radio.Group>
                <Checkbox
                  label="Only try it"
                  description="Nothing is written. The result counts what would be."
                  checked={isTrial}
                  onChange={(event) => setTrial(event.currentTarget.checked)}
                />
                <Summary
                  device={deviceId}
                  what={isWhole ? 'everything' : `${chosen.length} chosen files and folders`}
                  where={place === 'path' ? path : 'a new folder'}
                  asOf={asOf}
                />
              </Stack>
            </Stepper.Step>
          </Stepper>
          {restore.error !== null && <Failure error={restore.error} />}
          <Group justify="flex-end">
            <Action variant="default" onClick={step === 0 ? onClose : () => setStep(step - 1)}>
              {step === 0 ? 'Cancel' : 'Back'}
            </Action>
            {step === 0 && (
              <Action
                variant="default"
                loading={restore.isPending}
                refusal={isAsOffered ? undefined : 'The later steps say otherwise. Go through them.'}
                onClick={() => begin(false)}
              >
                Restore into a new folder now
              </Action>
            )}
            {step < LAST_STEP ? (
              <Action refusal={missing} onClick={() => setStep(step + 1)}>
                Next
              </Action>
            ) : (
              <Action loading={restore.isPending} onClick={() => begin(isTrial)}>
                {isTrial ? 'Try it' : 'Restore'}
              </Action>
            )}
          </Group>
        </Stack>
      )}
    </Modal>
  );
}

const named = ({ machine, disk, partition }: VolumePlace) => ({
  ...(machine === undefined ? {} : { machine }),
  disk,
  ...(partition === undefined ? {} : { partition }),
});

function Summary({
  device,
  what,
  where,
  asOf,
}: {
  device: string | undefined;
  what: string;
  where: string;
  asOf: string | undefined;
}) {
  const name = useDeviceName(device ?? '');
  return (
    <Text size="sm">
      Restores {what} to {where} on {name}
      {asOf !== undefined && `, from the backup store as it was on ${formatTime(new Date(asOf))}`}.
    </Text>
  );
}
