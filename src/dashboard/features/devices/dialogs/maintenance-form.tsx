import { Select, Text, TextInput } from '@mantine/core';
import { useState } from 'react';
import { useNow } from '../../../ui/index.ts';
import { DialogForm } from './dialog-form.tsx';
import {
  isMaintenanceEnd,
  MAINTENANCE_ENDS,
  maintenanceEndsAt,
  type MaintenanceEnd,
} from './maintenance-end.ts';

const CHOICES = Object.entries(MAINTENANCE_ENDS).map(([value, label]) => ({ value, label }));

/** Asks until when maintenance lasts. */
export function MaintenanceForm({
  run,
  onClose,
}: {
  /** `until` is null where somebody has to end it. */
  run: (until: string | null) => Promise<unknown>;
  onClose: () => void;
}) {
  const [end, setEnd] = useState<MaintenanceEnd>('hours');
  const [time, setTime] = useState('');
  const isValid = maintenanceEndsAt(end, time, useNow()) !== undefined;
  return (
    <DialogForm
      confirm="Start maintenance"
      isReady={isValid}
      onClose={onClose}
      run={() => run(maintenanceEndsAt(end, time, Date.now()) ?? null)}
    >
      <Text size="sm">
        A device in maintenance stays connected and can be worked on. It raises no alerts while it is away.
      </Text>
      <Select
        label="How long"
        data={CHOICES}
        value={end}
        allowDeselect={false}
        onChange={(value) => {
          if (isMaintenanceEnd(value)) setEnd(value);
        }}
        data-autofocus
      />
      {end === 'time' && (
        <TextInput
          type="datetime-local"
          label="Ends at"
          description="In the time zone of this computer; within a year."
          value={time}
          onChange={(event) => setTime(event.currentTarget.value)}
          error={time !== '' && !isValid ? 'This time has passed.' : undefined}
          required
        />
      )}
    </DialogForm>
  );
}
