import { Checkbox, Group, Stack, Stepper, Text, NumberInput, Radio, SimpleGrid } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { ApiError, useApiChange, type VmEstimate } from '../../api/index.ts';
import { Action, Failure, FormDialog, Modal } from '../../ui/index.ts';
import { useDeviceName } from './selects.tsx';
import {
  EstimateFacts,
  WithEstimate,
  HostSelect,
  FolderField,
  NeedsFields,
  NetworkFields,
  isOfFiles,
  toRestoreBody,
  useMachineWish,
  type MachineSource,
  type MachineWish,
  type WishProps,
  type DiskFormat,
  toBody,
} from './vm-fields.tsx';
import { VM_READS } from './vm-drawer.tsx';

interface Props {
  source: MachineSource;
  onClose: () => void;
}

const LAST_STEP = 2;
/** The fields of each step, by which a refusal leads back to where it can be mended. */
const FIELDS = [
  ['vmName', 'vmSpecs', 'grow'],
  ['targetDeviceId', 'targetPath', 'format'],
  ['network', 'start'],
];

function stepOf(error: Error): number | undefined {
  const paths = error instanceof ApiError ? Object.keys(error.fields) : [];
  const step = FIELDS.findIndex((fields) =>
    paths.some((path) => fields.some((field) => path === field || path.startsWith(`${field}.`))),
  );
  return step === -1 ? undefined : step;
}

/** Makes a virtual machine of a snapshot, whose disks are copied to a host, and leads to it. */
export function MachineWizard({ onClose, ...source }: MachineSource & { onClose: () => void }) {
  return (
    <Modal opened onClose={onClose} title="Restore as a machine" size="lg">
      <WithEstimate source={source}>
        {(estimate) => <Steps source={source} estimate={estimate} onClose={onClose} />}
      </WithEstimate>
    </Modal>
  );
}

function Steps({ source, estimate, onClose }: Props & { estimate: VmEstimate }) {
  const { snapshot } = source;
  const navigate = useNavigate();
  const [step, setStep] = useState(0);
  const { wish, set } = useMachineWish(source);
  const restore = useApiChange('POST /backup/restore/as-vm', { refreshes: VM_READS });
  const faults = restore.error instanceof ApiError ? restore.error.fields : {};
  const props: WishProps = { wish, set, faults };
  const ofFiles = isOfFiles(wish);
  const begin = () =>
    restore.mutate(
      { body: toRestoreBody(source, wish) },
      {
        onSuccess: ({ id }) => {
          onClose();
          void navigate({ to: '/backup/restores', search: { view: 'machines', machine: id } });
        },
        onError: (error) => setStep(stepOf(error) ?? step),
      },
    );
  const missing = missingIn(wish, estimate)[step];
  return (
    <Stack>
      <Stepper active={step} onStepClick={setStep} allowNextStepsSelect={false} size="sm">
        <Stepper.Step label="Machine">
          <Stack gap="sm">
            <EstimateFacts source={source} estimate={estimate} />
            <NeedsFields {...props} estimate={estimate} />
            <SizeFields {...props} estimate={estimate} />
          </Stack>
        </Stepper.Step>
        <Stepper.Step label="Host">
          <Stack gap="sm">
            <HostSelect
              orgId={snapshot.orgId}
              first={snapshot.deviceId}
              capability="backup.vm-from-image"
              value={wish.deviceId}
              onChange={(deviceId) => set({ deviceId })}
              error={faults['targetDeviceId']}
            />
            <FormatField {...props} />
            <FolderField {...props} />
          </Stack>
        </Stepper.Step>
        <Stepper.Step label="Network">
          <Stack gap="sm">
            {ofFiles ? (
              <Text size="sm">Files for Hyper-V have no network, and nothing is started.</Text>
            ) : (
              <>
                <NetworkFields {...props} />
                <Checkbox
                  label="Start the machine"
                  checked={wish.start}
                  onChange={(event) => set({ start: event.currentTarget.checked })}
                  error={faults['start']}
                />
              </>
            )}
            <Summary wish={wish} estimate={estimate} />
          </Stack>
        </Stepper.Step>
      </Stepper>
      {restore.error !== null && <Failure error={restore.error} />}
      <Group justify="flex-end">
        <Action variant="default" onClick={step === 0 ? onClose : () => setStep(step - 1)}>
          {step === 0 ? 'Cancel' : 'Back'}
        </Action>
        {step < LAST_STEP ? (
          <Action refusal={missing} onClick={() => setStep(step + 1)}>
            Next
          </Action>
        ) : (
          <Action refusal={missing} loading={restore.isPending} onClick={begin}>
            Restore
          </Action>
        )}
      </Group>
    </Stack>
  );
}

/** The missing values of each step. */
const missingIn = (wish: MachineWish, estimate: VmEstimate) => {
  const { vmName, deviceId, network, bridge, targetPath } = wish;
  const withoutFolder = isOfFiles(wish) && targetPath.trim() === '';
  return [
    vmName.trim() === '' ? 'Give the machine a name first.' : faultOfSize(wish, estimate),
    deviceId === undefined
      ? 'Choose a host first.'
      : withoutFolder
        ? 'Name the folder for the files first.'
        : undefined,
    network === 'bridge' && !isOfFiles(wish) && bridge.trim() === '' ? 'Name the bridge first.' : undefined,
  ];
};

function Summary({ wish, estimate }: { wish: MachineWish; estimate: VmEstimate }) {
  const host = useDeviceName(wish.deviceId ?? '');
  const result = isOfFiles(wish)
    ? `, as files of ${wish.vmName} in ${wish.targetPath.trim()}`
    : `, as the machine ${wish.vmName}${wish.start ? ', and starts it' : ''}`;
  return (
    <Text size="sm">
      Copies up to {estimate.diskSizeGb} GiB to {host}
      {result}. The page “Restores” shows how it goes on.
    </Text>
  );
}

/** Starts a machine straight from a snapshot, and leads to it. */
export function BootDialog({ onClose, ...source }: MachineSource & { onClose: () => void }) {
  const { snapshot } = source;
  const navigate = useNavigate();
  const { wish, set } = useMachineWish(source);
  const boot = useApiChange('POST /backup/restore/instant-boot', { refreshes: VM_READS });
  const submit = async () => {
    const { id } = await boot.mutateAsync({ body: toBody(source, wish) });
    await navigate({ to: '/backup/instant-boots', search: { boot: id } });
  };
  return (
    <FormDialog
      title="Start a machine from the snapshot"
      size="55rem"
      opened
      onClose={onClose}
      submitLabel="Start the machine"
      submit={submit}
    >
      {(faults) => (
        <WithEstimate source={source}>
          {(estimate) => (
            <>
              <EstimateFacts source={source} estimate={estimate} />
              <SimpleGrid cols={{ base: 1, md: 2 }} spacing="lg">
                <Stack gap="sm">
                  <HostSelect
                    orgId={snapshot.orgId}
                    first={snapshot.deviceId}
                    capability="backup.vm-instant-boot"
                    value={wish.deviceId}
                    onChange={(deviceId) => set({ deviceId })}
                    error={faults['targetDeviceId']}
                  />
                  <NeedsFields wish={wish} set={set} faults={faults} estimate={estimate} />
                  <FolderField wish={wish} set={set} faults={faults} />
                </Stack>
                <Stack gap="sm">
                  <NetworkFields wish={wish} set={set} faults={faults} />
                </Stack>
              </SimpleGrid>
            </>
          )}
        </WithEstimate>
      )}
    </FormDialog>
  );
}

const GIB = 2 ** 30;

/** The size that the first disk has, rounded up. */
const leastGb = ({ disks }: VmEstimate): number => Math.ceil((disks[0]?.sizeBytes ?? 0) / GIB);

/** Why the first disk cannot have the size that was typed. The server judges by itself. */
function faultOfSize({ diskSizeGb }: MachineWish, estimate: VmEstimate): string | undefined {
  return typeof diskSizeGb === 'number' && diskSizeGb < leastGb(estimate)
    ? `The first disk needs at least ${leastGb(estimate)} GiB.`
    : undefined;
}

/** How large the first disk becomes, and whether what is on it grows too. */
function SizeFields({ wish, set, faults, estimate }: WishProps & { estimate: VmEstimate }) {
  const isSized = typeof wish.diskSizeGb === 'number';
  return (
    <>
      <NumberInput
        label="Size of the first disk in GiB"
        description={`Leave it empty to keep the size. At least ${leastGb(estimate)} GiB.`}
        allowDecimal={false}
        value={wish.diskSizeGb}
        onChange={(diskSizeGb) => set({ diskSizeGb })}
        error={faultOfSize(wish, estimate) ?? faults['vmSpecs.diskSizeGb']}
      />
      <Checkbox
        label="Use all of the larger disk"
        description={
          isSized
            ? 'Extends the last partition to the end of the disk, and a file system of ext2, ext3 or ext4 in it too.'
            : 'Name a size first.'
        }
        disabled={!isSized}
        checked={isSized && wish.grow}
        onChange={(event) => set({ grow: event.currentTarget.checked })}
        error={faults['grow']}
      />
    </>
  );
}

const FORMATS: readonly { value: DiskFormat; label: string; description: string }[] = [
  { value: 'qcow2', label: 'qcow2', description: 'For KVM. It takes the space that is in use.' },
  { value: 'raw', label: 'raw', description: 'The bytes of the disk, for every hypervisor.' },
  {
    value: 'vhdx',
    label: 'vhdx',
    description: 'Files for Hyper-V, which you take from the folder. No machine is made of them here.',
  },
];

function FormatField({ wish, set, faults }: WishProps) {
  return (
    <Radio.Group
      label="Kind of the disks"
      value={wish.format}
      onChange={(value) =>
        set({ format: FORMATS.find((format) => format.value === value)?.value ?? 'qcow2' })
      }
      error={faults['format']}
    >
      <Stack gap="xs" mt="xs">
        {FORMATS.map((format) => (
          <Radio key={format.value} {...format} />
        ))}
      </Stack>
    </Radio.Group>
  );
}
