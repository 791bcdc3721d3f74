import { Checkbox, TextInput } from '@mantine/core';

/** The point in time within a log. */
export const StopAtField = ({
  value,
  onChange,
  error,
}: {
  value: string;
  onChange: (value: string) => void;
  error: string | undefined;
}) => (
  <TextInput
    type="datetime-local"
    step={1}
    label="Up to"
    description="By the clock of the machine. Empty: all of the log."
    value={value}
    onChange={(event) => onChange(event.currentTarget.value)}
    error={error}
  />
);

export const NoRecoveryField = ({
  value,
  onChange,
  error,
}: {
  value: boolean;
  onChange: (value: boolean) => void;
  error: string | undefined;
}) => (
  <Checkbox
    label="More backups follow"
    description="The database then waits for them, and cannot be used until the last one."
    checked={value}
    onChange={(event) => onChange(event.currentTarget.checked)}
    error={error}
  />
);
