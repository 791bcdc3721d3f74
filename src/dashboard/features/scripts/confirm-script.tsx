import { Alert, Checkbox, Stack } from '@mantine/core';
import { TextLink } from '../../ui/index.ts';

/** Asks whether a script that was changed may have the secrets that were given to it before. */
export function ConfirmScript({
  scriptId,
  isConfirmed,
  onChange,
}: {
  scriptId: string;
  isConfirmed: boolean;
  onChange: (isConfirmed: boolean) => void;
}) {
  return (
    <Stack gap={6}>
      <Alert color="yellow" title="The script was changed since it was given its secrets">
        It does not run until somebody who knows the secrets has read the script. If you have set them,
        confirm it here; otherwise give all of them again.
      </Alert>
      <TextLink to="/scripts/$scriptId" params={{ scriptId }}>
        Read the script
      </TextLink>
      <Checkbox
        label="The script may have the secrets as it is now"
        checked={isConfirmed}
        onChange={(event) => onChange(event.currentTarget.checked)}
      />
    </Stack>
  );
}
