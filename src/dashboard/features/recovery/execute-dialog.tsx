import { Radio, Stack, Text, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { apiQuery, call, newIdempotencyKey, type RecoveryPlanDetail } from '../../api/index.ts';
import { FormDialog, formatCounted, Loaded, Notice } from '../../ui/index.ts';
import { type ExecutionType, nameOf, TYPE_NAMES } from './recovery-frame.tsx';

const SENTENCES: Readonly<Record<ExecutionType, string>> = {
  rehearsal:
    'Restores everything to isolated places, runs the checks, takes everything down again and reports. Nothing in use is touched.',
  failover:
    'Restores to the targets, runs the checks, and marks the devices as failed over. What it has made stays.',
  failback: 'Brings the data that has changed since then back from the targets, and clears the marks.',
};
type MachinesAre = 'saved' | 'back';

const BEGIN: Readonly<Record<ExecutionType, string>> = {
  rehearsal: 'Begin the rehearsal',
  failover: 'Begin the failover',
  failback: 'Begin the failback',
};

/** Chooses what is done with a plan, and leads to the execution. */
export function ExecuteDialog({
  planId,
  name,
  onClose,
}: {
  planId: string;
  name: string;
  onClose: () => void;
}) {
  const navigate = useNavigate();
  const plan = useQuery(apiQuery('GET /dr/plans/{id}', { params: { id: planId } }));
  const [type, setType] = useState<ExecutionType>('rehearsal');
  const [note, setNote] = useState('');
  const [machinesAre, setMachines] = useState<MachinesAre>();
  // A second click, or a repeated request, begins no second execution.
  const [idempotencyKey] = useState(newIdempotencyKey);
  const begin = async () => {
    const { id } = await call(
      'POST /dr/plans/{id}/execute',
      {
        params: { id: planId },
        body: {
          executionType: type,
          ...(note.trim() === '' ? {} : { note }),
          ...(type === 'failback' && machinesAre === 'back' ? { machinesAreBack: true } : {}),
          ...(type === 'failback' && machinesAre === 'saved' ? { saveMachines: true } : {}),
        },
      },
      { idempotencyKey },
    );
    await navigate({ to: '/recovery/executions/$executionId', params: { executionId: id } });
  };
  return (
    <FormDialog
      title={`Execute “${name}”`}
      size="lg"
      opened
      onClose={onClose}
      submitLabel={BEGIN[type]}
      submit={begin}
    >
      {(faults) => (
        <Loaded query={plan} what="Reading the plan">
          {(data) => {
            const machines = data.failedOver.filter(({ restoreType }) => restoreType !== 'files');
            return (
              <>
                <Radio.Group
                  label="What is done"
                  value={type}
                  onChange={(value) =>
                    setType(value === 'failover' || value === 'failback' ? value : 'rehearsal')
                  }
                  error={faults['executionType']}
                >
                  <Stack gap="xs" mt="xs">
                    {(['rehearsal', 'failover', 'failback'] as const).map((one) => {
                      const refusal = refusalOf(one, data);
                      return (
                        <Radio
                          key={one}
                          value={one}
                          disabled={refusal !== undefined}
                          label={TYPE_NAMES[one]}
                          description={
                            refusal === undefined ? SENTENCES[one] : `${SENTENCES[one]} ${refusal}`
                          }
                        />
                      );
                    })}
                  </Stack>
                </Radio.Group>
                {type === 'failover' && (
                  <Notice
                    tone="warning"
                    title={`${formatCounted(data.deviceCount, 'device')} will be replaced`}
                  >
                    <Text size="sm">
                      Files of the target devices may be replaced by those of the backups. Do this when the
                      devices are lost, not to try it: that is what rehearsals are for.
                    </Text>
                  </Notice>
                )}
                {type === 'failback' && machines.length > 0 && (
                  <Radio.Group
                    label="The machines"
                    description={`Muster does not write to the disks of running systems, so a person brings these back: ${machines
                      .map(nameOf)
                      .join(', ')}.`}
                    value={machinesAre ?? null}
                    onChange={(value) => setMachines(value === 'back' ? 'back' : 'saved')}
                    error={faults['machinesAreBack'] ?? faults['saveMachines']}
                  >
                    <Stack gap="xs" mt="xs">
                      <Radio
                        value="saved"
                        label="Shut them down and back them up"
                        description="The execution shows the snapshots, from which they are brought back by bare-metal recovery. They stay marked."
                      />
                      <Radio
                        value="back"
                        label="They are back"
                        description="Clears their marks. The machines at the recovery site are left to be discarded."
                      />
                    </Stack>
                  </Radio.Group>
                )}
                <TextInput
                  label="Note"
                  description="Why it is done. It stands in the audit log and in the report."
                  value={note}
                  onChange={(event) => setNote(event.currentTarget.value)}
                  error={faults['note']}
                />
                <Text size="sm" c="dimmed">
                  It needs two-factor authentication. You can abort it at any time.
                </Text>
              </>
            );
          }}
        </Loaded>
      )}
    </FormDialog>
  );
}

function refusalOf(type: ExecutionType, { failedOver, deviceCount }: RecoveryPlanDetail): string | undefined {
  if (type === 'failback' && failedOver.length === 0) return 'Not now: nothing has failed over.';
  return type === 'failover' && failedOver.length > 0 && failedOver.length >= deviceCount
    ? 'Not now: its devices have failed over.'
    : undefined;
}
