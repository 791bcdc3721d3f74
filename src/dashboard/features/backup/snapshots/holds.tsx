import { Group, Text, Textarea, TextInput } from '@mantine/core';
import { IconGavel, IconLock } from '@tabler/icons-react';
import { useState } from 'react';
import { useApiChange, type BackupSnapshot } from '../../../api/index.ts';
import { useRefusal } from '../../../session/index.ts';
import { Action, endsOfDay, formatTime, FormDialog } from '../../../ui/index.ts';

const REFRESHES = ['GET /backup/snapshots/{id}', 'GET /backup/snapshots'] as const;
const REASON_MAX = 500;

/** What keeps a snapshot from being removed: a legal hold, and a time until which it is immutable. */
export function Holds({ snapshot }: { snapshot: BackupSnapshot }) {
  const { legalHold, removedAt } = snapshot;
  const [opened, setOpened] = useState<'hold' | 'immutability'>();
  const close = () => setOpened(undefined);
  const write = useRefusal('backup:write');
  const gone = removedAt === null ? undefined : 'The snapshot was removed.';
  const button = { size: 'compact-sm', variant: 'default' } as const;
  return (
    <Group gap="xs">
      <Action
        {...button}
        refusal={write ?? (legalHold ? undefined : gone)}
        leftSection={<IconGavel size={14} aria-hidden />}
        onClick={() => setOpened('hold')}
      >
        {legalHold ? 'Release the legal hold …' : 'Hold …'}
      </Action>
      <Action
        {...button}
        refusal={write ?? gone}
        leftSection={<IconLock size={14} aria-hidden />}
        onClick={() => setOpened('immutability')}
      >
        Make immutable …
      </Action>
      {opened === 'hold' && <HoldDialog snapshot={snapshot} onClose={close} />}
      {opened === 'immutability' && <ImmutabilityDialog snapshot={snapshot} onClose={close} />}
    </Group>
  );
}

function HoldDialog({
  snapshot: { id, legalHold, legalHoldReason },
  onClose,
}: {
  snapshot: BackupSnapshot;
  onClose: () => void;
}) {
  const [reason, setReason] = useState('');
  const change = useApiChange('POST /backup/snapshots/{id}/legal-hold', { refreshes: REFRESHES });
  return (
    <FormDialog
      title={legalHold ? 'Release the legal hold' : 'Hold the snapshot'}
      opened
      onClose={onClose}
      submitLabel={legalHold ? 'Release' : 'Hold'}
      submit={() => change.mutateAsync({ params: { id }, body: { enabled: !legalHold, ...given(reason) } })}
    >
      {(faults) => (
        <>
          <Text size="sm">
            {legalHold
              ? `It is held because: ${legalHoldReason ?? 'nobody said why'}. After the release, the retention may remove it.`
              : 'As long as it is held, no retention and no person removes it.'}
          </Text>
          <ReasonField required={!legalHold} value={reason} onChange={setReason} error={faults['reason']} />
        </>
      )}
    </FormDialog>
  );
}

function ImmutabilityDialog({
  snapshot: { id, immutableUntil, isImmutable, immutabilityEnforcement },
  onClose,
}: {
  snapshot: BackupSnapshot;
  onClose: () => void;
}) {
  const [day, setDay] = useState('');
  const [reason, setReason] = useState('');
  const change = useApiChange('POST /backup/snapshots/{id}/immutability', { refreshes: REFRESHES });
  return (
    <FormDialog
      title="Make the snapshot immutable"
      opened
      onClose={onClose}
      submitLabel="Make immutable"
      submit={() =>
        change.mutateAsync({
          params: { id },
          body: { extendUntil: endsOfDay(day).end ?? day, ...given(reason) },
        })
      }
    >
      {(faults) => (
        <>
          <Text size="sm">
            Nobody can take this back: the time can be put off, and never be brought forward.
            {isImmutable && immutableUntil !== null && ` Now: ${formatTime(new Date(immutableUntil))}.`}
          </Text>
          {immutabilityEnforcement === 'none' && (
            <Text size="sm">
              Muster will not remove it. The device or the account of the bucket can remove the data all the
              same.
            </Text>
          )}
          <TextInput
            type="date"
            label="Until the end of"
            required
            value={day}
            onChange={(event) => setDay(event.currentTarget.value)}
            error={faults['extendUntil']}
            data-autofocus
          />
          <ReasonField required={false} value={reason} onChange={setReason} error={faults['reason']} />
        </>
      )}
    </FormDialog>
  );
}

function ReasonField({
  required,
  value,
  onChange,
  error,
}: {
  required: boolean;
  value: string;
  onChange: (reason: string) => void;
  error: string | undefined;
}) {
  return (
    <Textarea
      label="Reason"
      description="The audit trail keeps it."
      required={required}
      maxLength={REASON_MAX}
      autosize
      minRows={2}
      value={value}
      onChange={(event) => onChange(event.currentTarget.value)}
      error={error}
    />
  );
}

const given = (reason: string): { reason?: string } =>
  reason.trim() === '' ? {} : { reason: reason.trim() };
