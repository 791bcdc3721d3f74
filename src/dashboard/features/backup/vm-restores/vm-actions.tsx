import { Group } from '@mantine/core';
import { useApiChange, type VmRestore } from '../../../api/index.ts';
import { useRefusal } from '../../../session/index.ts';
import { Action, ConfirmAction, Failure } from '../../../ui/index.ts';
import { VM_READS } from './use-vm-work.ts';
import { BUSY, OVER, refusalOf } from './vm-texts.ts';

const changes = { refreshes: VM_READS };

/** What can be done with a machine of a snapshot, as long as it has not ended. */
export function VmActions({ restore }: { restore: VmRestore }) {
  const { id, vmName, kind, status } = restore;
  const refusal = useRefusal('recovery:execute');
  const start = useApiChange('POST /backup/restore/instant-boot/{id}/start', changes);
  const migrate = useApiChange('POST /backup/restore/instant-boot/{id}/migrate', changes);
  const discard = useApiChange('POST /backup/restore/instant-boot/{id}/discard', changes);
  const cancel = useApiChange('POST /backup/restore/vm/{id}/cancel', changes);
  if (OVER.includes(status)) return null;
  const input = { params: { id } };
  const button = { size: 'compact-sm', variant: 'default' } as const;
  return (
    <>
      <Group gap="xs">
        {kind === 'instant_boot' && (
          <>
            <ConfirmAction
              {...button}
              color="blue"
              refusal={refusal ?? refusalOf.migrate(restore)}
              title={`Make ${vmName} permanent`}
              question="What the machine still has in its snapshot is copied to its host while it runs. The host needs the space of its disks. Afterwards it needs the snapshot no more."
              confirm="Make it permanent"
              run={() => migrate.mutateAsync(input)}
            >
              Make permanent …
            </ConfirmAction>
            <Action
              {...button}
              refusal={refusal ?? refusalOf.start(restore)}
              loading={start.isPending}
              onClick={() => start.mutate(input)}
            >
              Start again
            </Action>
            <ConfirmAction
              {...button}
              refusal={refusal ?? refusalOf.discard(restore)}
              title={`Discard ${vmName}`}
              question="The machine is ended, and everything that it has written since its start is lost. The snapshot stays as it is. A host that is away does it when it returns."
              confirm="Discard the machine"
              run={() => discard.mutateAsync(input)}
            >
              Discard …
            </ConfirmAction>
          </>
        )}
        {BUSY.includes(status) && status !== 'discarding' && (
          <ConfirmAction
            {...button}
            refusal={refusal}
            title="Stop this work"
            question={
              status === 'migrating'
                ? 'The machine runs on from its snapshot, as before.'
                : 'What was made of the machine so far is removed.'
            }
            confirm="Stop it"
            run={() => cancel.mutateAsync(input)}
          >
            Cancel …
          </ConfirmAction>
        )}
      </Group>
      {start.error !== null && <Failure error={start.error} />}
    </>
  );
}
