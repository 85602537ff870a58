"""The methods of the socket, one module for each subject; see :mod:`htoolsd.socket.methods`."""
