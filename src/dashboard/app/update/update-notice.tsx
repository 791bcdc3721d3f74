import { Button, Tooltip } from '@mantine/core';
import { IconSparkles } from '@tabler/icons-react';
import { useRouter } from '@tanstack/react-router';
import { useCallback, useEffect, useState } from 'react';
import { useReturnOfConnection } from '../../live/index.ts';
import { isOutdated, reload, reloadOnce, takeUpdated } from './new-version.ts';

/**
 * Says that the server has been updated while this page was open. What somebody does here goes on undisturbed; the next
 * page comes with the new version.
 */
export function UpdateNotice() {
  const router = useRouter();
  const [isOld, setOld] = useState(false);
  const look = useCallback(() => {
    void isOutdated().then((answer) => {
      if (answer === true) setOld(true);
    });
  }, []);
  useReturnOfConnection(look);
  useEffect(() => {
    if (!isOld) return undefined;
    return router.subscribe('onBeforeLoad', ({ pathChanged }) => {
      // The router writes the address of the next page as soon as it has called back.
      if (pathChanged) setTimeout(() => reloadOnce({ isUpdate: true }));
    });
  }, [isOld, router]);
  useEffect(() => {
    if (!takeUpdated()) return;
    import('@mantine/notifications').then(
      ({ notifications }) =>
        notifications.show({ message: 'Muster has been updated. This is the new version.' }),
      () => undefined,
    );
  }, []);
  if (!isOld) return null;
  return (
    <Tooltip
      label="Muster has been updated. The next page that you open comes with the new version."
      multiline
      maw={300}
    >
      <Button
        size="compact-xs"
        variant="light"
        leftSection={<IconSparkles size={12} aria-hidden />}
        onClick={() => reload({ isUpdate: true })}
      >
        New version
      </Button>
    </Tooltip>
  );
}
