import { Alert, Stack, Text } from '@mantine/core';
import { IconKey } from '@tabler/icons-react';
import { CopyText } from '../../../ui/index.ts';

/** The secret of a webhook, right after it was made. */
export function NewSecret({ secret }: { secret: string }) {
  return (
    <Alert color="orange" icon={<IconKey aria-hidden />} title="The secret is shown only now" role="status">
      <Stack gap="xs">
        <CopyText label="The secret" text={secret} />
        <Text size="sm">
          The receiver checks the signature of each request with it, as the Standard Webhooks specification
          says.
        </Text>
      </Stack>
    </Alert>
  );
}
