import { Checkbox, Group, Modal, Stack, Stepper, Text } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { ApiError, useApiChange, type VmEstimate } from '../../../api/index.ts';
import { Action, Failure } from '../../../ui/index.ts';
import { useDeviceName } from '../parts/device-names.tsx';
import { faultOfSize, FormatField, SizeFields } from './disk-fields.tsx';
import { EstimateFacts, WithEstimate } from './estimate.tsx';
import { HostSelect } from './host-select.tsx';
import { FolderField, NeedsFields, NetworkFields } from './machine-fields.tsx';
import {
  isOfFiles,
  toRestoreBody,
  useMachineWish,
  type MachineSource,
  type MachineWish,
  type WishProps,
} from './machine-wish.ts';
import { VM_READS } from './use-vm-work.ts';

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
    <Modal
      opened
      onClose={onClose}
      title="Restore as a machine"
      size="lg"
      closeButtonProps={{ 'aria-label': 'Close' }}
    >
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

/** What each step still needs. */
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
